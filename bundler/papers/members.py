"""The papers that a bundle carries: members of its archive, and what `papers/` holds."""

from bundler.papers import gathering_kept, licences_report, sbom
from bundler.papers.bill import Bill


def members(bill: Bill) -> dict[str, bytes]:
    """Path in the archive → bytes, sorted."""
    found = {gathering_kept.MEMBER: gathering_kept.dump(bill), sbom.MEMBER: sbom.render(bill)}
    return dict(sorted({**found, **licences_report.documents(bill)}.items()))
