"""A record's page as PDF. WeasyPrint lays it out, where it is installed (the extra `pdf`).

Letters come from fonts of this machine, so the bytes are the same where the fonts are.
"""

import importlib
import logging
from typing import Any

from manifests.errors import UsageError

#: How WeasyPrint tells of a letter that no font has; it draws a box in its place.
_NO_LETTER = ".notdef glyph"


class _Boxes(logging.Handler):
    """Counts letters that no font has."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += _NO_LETTER in record.getMessage()


def pdf(page: str) -> bytes:
    """The page as PDF; nothing is fetched for it.

    Raises UsageError where WeasyPrint, its Pango or a font for a letter is not installed.
    """
    try:
        library: Any = importlib.import_module("weasyprint")
    except (ImportError, OSError) as error:  # OSError: Pango's shared objects are missing
        raise UsageError(
            "a PDF needs WeasyPrint, and WeasyPrint needs Pango",
            why=str(error).strip().partition("\n")[0],
            mend="pip install 'vllm-bundle[pdf]' (Debian: apt-get install libpango-1.0-0 "
            "libpangoft2-1.0-0), or write --html and print that from a browser",
        ) from None
    boxes, logger = _Boxes(), logging.getLogger("weasyprint")
    before = logger.handlers, logger.propagate
    logger.handlers, logger.propagate = [boxes], False
    try:
        made = library.HTML(string=page, url_fetcher=_refuse).write_pdf()
    finally:
        logger.handlers, logger.propagate = before
    if boxes.count:
        raise UsageError(
            f"{boxes.count} letters of the page would be empty boxes in the PDF",
            why="no font of this machine has them, and people sign what they can read",
            mend="install one (Debian: apt-get install fonts-noto-cjk), or take --language en",
        )
    assert isinstance(made, bytes)
    return made


def _refuse(url: str, *_more: Any, **_others: Any) -> Any:
    raise ValueError(f"a record asks for nothing, and this page asks for {url}")
