"""The commands about a medium and what is installed from it."""

import contextlib
from pathlib import Path

from bundlectl import auditpaper, auditrecord, bytecode, config, diagnosis, donor, service
from bundlectl import install as installing
from bundlectl import preflight as checking
from bundlectl import repair as repairing
from bundlectl.call import Run, seconds
from bundlectl.outcome import preview
from bundlectl.servecommands import STARTING, foreground, refuse_another, tell
from manifests import approvalinstalled
from manifests import audit as auditing
from manifests.audit import sumlist
from manifests.bundle import Manifest
from manifests.console import size
from manifests.errors import UsageError, from_oserror
from manifests.exitcodes import ExitCode
from manifests.medium import vouched
from manifests.parity import advice
from manifests.parity.restore import restore_from


def install(run: Run) -> int:
    """Install the bundle, and put it into service unless told not to."""
    layout, options, console = run.layout, run.options(), run.console
    report = installing.examine(run.media, layout, options, run.next_medium)
    manifest = report.manifest
    if run.arguments.foreground and not manifest.model_only:
        refuse_another(layout)
    console.say(f"{manifest.name} → {layout.prefix}")
    for warning in checking.warnings(report.findings):
        console.say(f"warning: {warning.line()}")
    if report.carried.delta is not None:
        console.say(donor.told(report.carried))
    with console.stage(f"verify and unpack {size(report.work)}", report.work) as progress:
        release = installing.install(run.media, layout, report, options, progress, run.next_medium)
    if manifest.model_only:
        return _tell_added(run, release, manifest)
    with console.stage("compile the server's Python packages"):
        bytecode.prepare(layout, release)
    if run.arguments.no_start:
        run.console.result(
            {"release": release, "prefix": str(layout.prefix)}, f"installed {release}"
        )
        return ExitCode.OK
    settings = config.load(layout.config_file)
    if run.arguments.foreground:
        return foreground(run, release, settings)
    with console.stage(STARTING, unit="s") as progress:
        started = service.activate(layout, release, settings, seconds(progress))
    return tell(run, started)


def _tell_added(run: Run, release: str, manifest: Manifest) -> int:
    names = [model.name for model in manifest.models]
    command = f"'{run.layout.command}' use {names[0]}"
    run.console.result(
        {"release": release, "prefix": str(run.layout.prefix), "models": names, "next": command},
        f"added {', '.join(names)}; what is served stays as it is\nserve it:  {command}",
    )
    return ExitCode.OK


def audit(run: Run) -> int:
    """Compare every byte of a medium or an installation with its manifest."""
    path = run.arguments.path or run.arguments.media or run.layout.prefix
    if run.arguments.record and path != run.layout.prefix:
        raise UsageError(
            "--record keeps what an audit of the installation itself answers",
            mend="leave out --record, or the path",
        )
    if run.arguments.sums:
        _check_alone(run)
        run.console.result({"sums": (sums := sumlist.render(path)).splitlines()}, sums.rstrip("\n"))
        return ExitCode.OK
    others = tuple(run.arguments.volumes_in)
    try:
        report = _audited(run, path, others)
    except OSError as error:
        raise from_oserror(error, "auditing") from error
    if not report.clean and advice.restorable(path):
        run.console.say(f"mend: {advice.how(path)}")
    return ExitCode.OK if report.clean else ExitCode.INTEGRITY


def _check_alone(run: Run) -> None:
    arguments = run.arguments
    names = ("record", "report", "name", "output", "sample", "seed", "max_rate", "jobs", "resume")
    options = {f"--{name.replace('_', '-')}": getattr(arguments, name) for name in names}
    more = {"--format": arguments.format != "text", "--volumes-in": arguments.volumes_in}
    sumlist.check_alone(options | more)


def _audited(run: Run, path: Path, others: tuple[Path, ...]) -> auditing.Report:
    arguments, console = run.arguments, run.console
    answer = auditing.Answer(arguments.format, arguments.output, arguments.lang)
    answer.check(console)
    for file, option in ((arguments.output, "--output"), (arguments.resume, "--resume")):
        auditing.check_outside(file, option, (path, *others))
    files = {name: getattr(arguments, name) for name in ("output", "resume", "report")}
    auditing.check_apart({f"--{name}": path for name, path in files.items()})
    how = auditing.how(
        arguments.sample, arguments.seed, arguments.max_rate, arguments.jobs, arguments.resume
    )
    if arguments.record and how.sample is not None:
        raise UsageError(
            "--record keeps what a whole audit answers", mend="leave out --record, or --sample"
        )
    if arguments.report is not None:
        approvalinstalled.check(arguments.report, path)
    prepared = auditing.prepare(path, others, how)
    with console.stage(f"audit {path}", prepared.size) as progress:
        report = prepared.run(progress)
    with contextlib.ExitStack() as last:  # one that can't be written keeps no other back
        if arguments.report is not None:
            last.callback(auditpaper.keep, arguments.report, path, report, arguments.name)
        if arguments.record:
            last.callback(auditrecord.keep, run.layout, report)
        answer.give(report, console)
    return report


def repair(run: Run) -> int:
    """Replace what an audit finds wrong."""
    arguments, layout, console = run.arguments, run.layout, run.console
    if arguments.medium is None and arguments.media is None:
        raise UsageError(
            "this command needs the bundle's medium",
            mend="name its folder with --from, or run: sh install.sh repair",
        )
    if arguments.medium is None:
        medium = run.media
    else:
        medium = vouched(arguments.medium, tuple(arguments.volumes_in))
    subject = diagnosis.identify(
        medium, layout, checked=arguments.medium is None, next_medium=run.next_medium
    )
    with contextlib.nullcontext() if arguments.dry_run else installing.locked(layout):
        with console.stage(f"audit {layout.prefix}", subject.size()) as progress:
            found = diagnosis.examine(subject, progress)
        outcome = preview(found, remove_extra=arguments.remove_extra)
        if not arguments.dry_run:
            with console.stage(f"mend {len(found.mendable)} findings", outcome.read) as progress:
                outcome = repairing.mend(
                    found,
                    medium,
                    progress,
                    remove_extra=arguments.remove_extra,
                    next_medium=run.next_medium,
                )
    console.result(outcome.as_record(), outcome.text())
    return ExitCode.OK if outcome.intact else ExitCode.INTEGRITY


def restore(run: Run) -> int:
    """Mend a damaged medium from its parity."""
    arguments, medium = run.arguments, run.media
    if arguments.trusted_list is None:  # install.sh took it for another command, and told no list
        raise UsageError(
            "restore has to be the first word",
            mend="run it as: sh install.sh restore --to FOLDER …",
        )
    restored = restore_from(
        (medium.folder, *medium.others),
        arguments.target,
        run.console,
        next_medium=run.next_medium,
        trusted=arguments.trusted_list,
    )
    run.console.result(restored.as_record(), restored.text())
    return ExitCode.OK
