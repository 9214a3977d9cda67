"""What was found in an environment, and whether it stops a bundle."""

from dataclasses import dataclass

from manifests.errors import TargetError

#: Kinds of findings, in the order of a report.
GLIBC, VERSION, SYMBOL, MISSING, MIXED = "glibc", "version", "symbol", "missing", "mixed"
OPTIONAL, TWICE, ORDER, SEARCH, OTHER = "optional", "twice", "order", "search", "other"
KINDS = (GLIBC, VERSION, SYMBOL, MISSING, MIXED, OPTIONAL, TWICE, ORDER, SEARCH, OTHER)


@dataclass(frozen=True)
class Finding:
    """One thing found, and the files that it concerns."""

    kind: str
    what: str  # a sentence without its files
    paths: tuple[str, ...]

    def text(self, most: int = 3) -> str:
        """A line: the sentence and up to `most` files."""
        more = f" and {len(self.paths) - most} more" if len(self.paths) > most else ""
        return f"{self.what}: {', '.join(self.paths[:most])}{more}"


@dataclass(frozen=True)
class Judgement:
    """What was found. Errors: a part of the server would not load on the target."""

    errors: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()


def require(judgement: Judgement) -> None:
    """Stop where a bundle would not work.

    Raises TargetError with every error.
    """
    if judgement.errors:
        raise TargetError(
            f"the environment would not load on the target: {len(judgement.errors)} findings",
            findings=[finding.text() for finding in judgement.errors],
            mend="see them with `bundle elf`; choose a stack or wheels made for that target",
        )
