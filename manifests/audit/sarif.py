"""An audit's answer as SARIF 2.1.0: https://docs.oasis-open.org/sarif/sarif/v2.1.0/.

What the standard asks for, by section: version, runs (3.13); tool, results (3.14), the driver's
name (3.19), each rule's id (3.49), each result's message (3.27) and location (3.28), and whether
the run came to its end (3.20). Files are named relative to PATH, which ends in a slash (3.14.14).
"""

import json
from typing import Any
from urllib.parse import quote

from manifests import __version__
from manifests.audit.report import INSTALLATION, PROBLEMS, Finding, Report
from manifests.names import MEDIA_NAME, printable

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_BASE = "PATH"


def render(report: Report) -> str:
    """One run; a result for each finding."""
    run = {
        "tool": {
            "driver": {
                "name": "bundle audit",
                "version": __version__,
                "rules": [
                    {
                        "id": name,
                        "shortDescription": {"text": about},
                        "fullDescription": {"text": f"{about}; see the manual's topic 'audit'."},
                        "help": {"text": report.mend or "See the manual's topic 'audit'."},
                        "defaultConfiguration": {"level": "error"},
                    }
                    for name, about in PROBLEMS.items()
                ],
            }
        },
        "originalUriBaseIds": {_BASE: _base(report.path)},
        "invocations": [{"executionSuccessful": True, "exitCode": 0 if report.clean else 1}],
        "results": [_result(finding, report.kind) for finding in report.findings],
        "columnKind": "unicodeCodePoints",
        "properties": report.as_record() | {"findings": len(report.findings)},
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, sort_keys=True) + "\n"


def _base(path: str) -> dict[str, Any]:
    """Where PATH is; a relative path says nothing to others, and the answer holds no other."""
    told = {"description": {"text": f"What was audited: {printable(path)}"}}
    if not path.startswith("/"):
        return told
    return told | {"uri": f"file://{quote(path.encode('utf-8', 'surrogateescape'))}/"}


def _result(finding: Finding, kind: str) -> dict[str, Any]:
    return {
        "ruleId": finding.problem,
        "ruleIndex": list(PROBLEMS).index(finding.problem),
        "level": "error",
        "message": {"text": str(finding)},
        "locations": [_location(finding.path, kind)],
    }


def _location(path: str, kind: str) -> dict[str, Any]:
    """A file, or what has none of its own: a member of the archive, its end, a label."""
    if kind == INSTALLATION or MEDIA_NAME.fullmatch(path):
        uri = quote(path.encode("utf-8", "surrogateescape"))
        return {"physicalLocation": {"artifactLocation": {"uri": uri, "uriBaseId": _BASE}}}
    return {"logicalLocations": [{"fullyQualifiedName": printable(path), "kind": "member"}]}
