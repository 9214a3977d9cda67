"""An audit's answer as JUnit XML, by Jenkins' schema, which asks for neither time nor host.

https://github.com/jenkinsci/xunit-plugin, types/model/xsd/junit-10.xsd
"""

from xml.etree import ElementTree

from manifests import __version__
from manifests.audit.report import PROBLEMS, UNREADABLE, Report
from manifests.names import printable


def render(report: Report) -> str:
    """One case for each finding, and one that passes for each problem that was not found."""
    unreadable = sum(finding.problem == UNREADABLE for finding in report.findings)
    cases = [finding.problem for finding in report.findings]
    passed = [problem for problem in PROBLEMS if problem not in cases]
    suite = ElementTree.Element(
        "testsuite",
        name=f"bundle audit: {report.kind}",
        tests=str(len(cases) + len(passed)),
        failures=str(len(cases) - unreadable),
        errors=str(unreadable),
        skipped="0",
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (
        ("path", report.path),
        ("verdict", report.verdict),
        ("files", report.files),
        ("checked", report.checked),
        ("bytes", report.size),
        ("tool", f"vllm-bundle {__version__}"),
        *(("manifest_sha256", digest) for digest in report.manifest_sha256),
        *(("risk", risk) for risk in report.risks),
    ):
        ElementTree.SubElement(properties, "property", name=name, value=printable(str(value)))
    for finding in report.findings:
        path = printable(finding.path)
        case = ElementTree.SubElement(
            suite, "testcase", name=path, classname=f"{report.kind}.{finding.problem}"
        )
        kind = "error" if finding.problem == UNREADABLE else "failure"
        told = ElementTree.SubElement(case, kind, type=finding.problem, message=str(finding))
        told.text = str(finding)
    for problem in passed:
        name = f"nothing {problem}" if report.sample is None else f"nothing {problem} in the sample"
        ElementTree.SubElement(suite, "testcase", name=name, classname=f"{report.kind}.{problem}")
    if limits := report.limits():
        ElementTree.SubElement(suite, "system-out").text = "\n".join(limits)
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, "unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
