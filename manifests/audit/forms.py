"""An audit's answer in the forms that people and programs take."""

import json

from manifests.audit.report import Report

TEXT, JSON, HTML, JUNIT, SARIF = FORMATS = ("text", "json", "html", "junit", "sarif")
LANGUAGES = ("en", "zh")


def render(report: Report, form: str, language: str = "en") -> str:
    """The answer in one of FORMATS, ended by a line break; `language` is the page's."""
    if form == JSON:
        text = json.dumps(report.as_record(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        try:
            text.encode()
        except UnicodeEncodeError:  # a name that is not UTF-8
            text = json.dumps(report.as_record(), indent=2, sort_keys=True) + "\n"
        return text
    if form in (HTML, JUNIT, SARIF):
        # Most answers are text, and `status`, which shows the last one, is to be quick.
        from manifests.audit import junit, page, sarif

        if form == HTML:
            return page.render(report, language)
        return junit.render(report) if form == JUNIT else sarif.render(report)
    return report.text() + "\n"
