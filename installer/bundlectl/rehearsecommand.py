"""The command `rehearse`."""

from typing import Any

from bundlectl import config, models, supposed
from bundlectl.call import Run, seconds
from bundlectl.rehearse import rehearse
from manifests.console import size
from manifests.exitcodes import ExitCode
from manifests.records import to_data


def rehearse_command(run: Run) -> int:
    """Try a start with random weights, and say how long it took."""
    layout, arguments = run.layout, run.arguments
    release = arguments.release or supposed.release_of(layout)
    if arguments.model:
        model = models.find(layout, release, arguments.model)
    else:
        model = models.to_serve(layout, release)
    settings = config.load(layout.config_file)
    with run.console.stage("start with random weights", unit="s") as progress:
        done = rehearse(layout, release, settings, model, seconds(progress), arguments.keep_caches)
    record: dict[str, Any] = {
        "release": done.release,
        "model": done.model,
        "seconds": int(done.seconds),
        "sizing": list(done.sizing),
        "notes": list(done.notes),
    }
    kept = ""
    if done.kept is not None:
        record["caches"] = {**vars(done.kept), "key": to_data(done.kept.key)}
        kept = (
            f"\n{arguments.keep_caches}: {done.kept.files} files of compile caches for "
            f"{done.kept.key.device}, {size(done.kept.size)}; "
            "carry them with: bundle create --caches FILE"
        )
    for line in (*done.notes, *done.sizing):
        run.console.say(line)
    text = (
        f"{done.release} starts with the shape of {done.model} in {done.seconds:.0f} s, and has "
        "ended again.\nIts weights were random: only a real start proves the model."
        f"{kept}"
    )
    run.console.result(record, text)
    return ExitCode.OK
