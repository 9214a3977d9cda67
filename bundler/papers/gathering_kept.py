"""The bill as a bundle carries it, so that nobody has to unpack gigabytes to read a paper.

Each licence text is in it once, however many components bring it.
"""

from dataclasses import dataclass, replace

from bundler.papers.bill import Bill
from manifests import canonical
from manifests.errors import IntegrityError, UsageError
from manifests.records import from_data, to_data

#: Its path in the archive, and in an installed release.
MEMBER = "papers/bill.json"
SCHEMA = 1


@dataclass(frozen=True)
class _Kept:
    schema: int
    bill: Bill  # whose texts are empty
    texts: dict[str, str]  # sha256 of the bytes → content


def dump(bill: Bill) -> bytes:
    """The canonical bytes of a bill."""
    texts = {text.sha256: text.content for one in bill.components for text in one.texts}
    empty = _with_texts(bill, dict.fromkeys(texts, ""))
    return canonical.dumps(to_data(_Kept(SCHEMA, empty, texts)))


def parse(data: bytes, where: str) -> Bill:
    """Read a bill; `where` starts the sentences of errors.

    Raises IntegrityError where it is none, UsageError where a newer release wrote it.
    """
    try:
        value = canonical.loads(data)
    except ValueError as error:
        raise IntegrityError(f"{where}: not a bill of materials ({error})") from None
    schema = value.get("schema") if isinstance(value, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise UsageError(
            f"{where}: schema {schema}, this release reads {SCHEMA}",
            mend="use the `bundle` that made the bundle, or --recompute",
        )
    kept = from_data(_Kept, value, where, exact=True)
    needed = {text.sha256 for one in kept.bill.components for text in one.texts}
    if needed != kept.texts.keys():
        raise IntegrityError(f"{where}: holds other licence texts than it names")
    return _with_texts(kept.bill, kept.texts)


def _with_texts(bill: Bill, contents: dict[str, str]) -> Bill:
    filled = (
        replace(one, texts=tuple(replace(t, content=contents[t.sha256]) for t in one.texts))
        for one in bill.components
    )
    return replace(bill, components=tuple(filled))
