"""Remove the bytecode that a wheel brought.

A few wheels carry `.pyc` files (numpy 1.26 does). They hold paths and times of the machine that
made them and Python would ignore most of them; a bundle has none, so that its trees are immutable.
"""

import csv
import io
from pathlib import Path

_SUFFIX = ".pyc"


def drop(prefix: Path) -> list[str]:
    """Delete every bytecode file and its line in RECORD (PEP 376); gives their relative paths.

    Raises OSError.
    """
    found = sorted(path for path in prefix.rglob(f"*{_SUFFIX}") if path.is_file())
    for path in found:
        path.unlink()
        if path.parent.name == "__pycache__" and not any(path.parent.iterdir()):
            path.parent.rmdir()
    if found:
        for record in prefix.glob("lib/python3.*/site-packages/*.dist-info/RECORD"):
            _forget(record)
    return [str(path.relative_to(prefix)) for path in found]


def _forget(record: Path) -> None:
    text = record.read_text("utf-8")
    rows = list(csv.reader(io.StringIO(text)))
    kept = [row for row in rows if row and not row[0].endswith(_SUFFIX)]
    if len(kept) != len(rows):
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(kept)
        record.write_text(out.getvalue(), "utf-8")
