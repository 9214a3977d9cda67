"""`audit --report`: the counterpart of an approval, which people sign after an audit.

There is no QR code on it: an approval's carries the digest of SHA256SUMS, by which an operator
takes media; of what is installed, machines compare the records themselves.
"""

from pathlib import Path

from bundlectl import config, models
from bundlectl.layout import Layout
from manifests.approval import Instance
from manifests.approvalinstalled import installation, write
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
    release, model, problems = layout.current_release(), "", []
    settings = config.ServeConfig()
    try:
        model = models.to_serve(layout, release).name if release else ""
    except BundleError as error:
        problems.append(error.what.replace(str(layout.prefix), "PREFIX"))
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
