"""`audit --report`: the counterpart of an approval, which people sign after an audit.

There is no QR code on it: an approval's carries the digest of SHA256SUMS, by which an operator
takes media; of what is installed, machines compare the records themselves.
"""

from pathlib import Path

from bundlectl import config, models
from bundlectl.layout import Layout
from manifests.approval import Instance
from manifests.approvalinstalled import installation, plain, write
from manifests.audit.report import Report
from manifests.errors import BundleError


def keep(file: Path, prefix: Path, report: Report, host: str) -> None:
    """Write the record of the installation that was audited; `host` is what it is called there.

    Raises FilesystemError.
    """
    instances = tuple(_instance(one) for one in Layout(prefix).every())
    write(file, installation(prefix, report, instances, host))


def _instance(layout: Layout) -> Instance:
    """One server, without what is secret or names a host."""
    release, model, problems = layout.current_release(), "", _of_link(layout)
    settings = config.ServeConfig()
    try:
        # Of what lies elsewhere, nothing was audited.
        model = models.to_serve(layout, release).name if release and not problems else ""
    except BundleError as error:
        problems.append(plain(error.what, layout.prefix))
    try:
        if layout.config_file.exists():  # before the first start there is none
            settings = config.load(layout.config_file)
    except (BundleError, OSError):  # whose text may quote what stands there
        problems.append("its settings can't be read (see: bundlectl config check)")
    return Instance(
        layout.called,
        release,
        model,
        local=settings.loopback,
        remote_code=settings.trust_remote_code,
        problem="; ".join(problems),
    )


def _of_link(layout: Layout) -> list[str]:
    """What is wrong with `current`: what it leads to is served, whatever its last name is."""
    try:
        target = layout.current.readlink()
        # The text alone is not enough: the folder that it lies in may be a link itself.
        folder, there = layout.release(target.name).resolve(), layout.current.resolve()
    except FileNotFoundError:
        return []
    except (OSError, RuntimeError):  # RuntimeError: a loop, up to Python 3.12
        return ["`current` can't be read as a link"]
    if str(target) != layout.link_to(target.name) or there != folder:
        return ["`current` leads to no release of this installation"]
    return []
