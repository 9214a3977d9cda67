"""The one table of exit codes: used by `bundle`, `bundlectl` and `install.sh`, shown in README."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit status means."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "ExitCode":
        """Keep the sentence beside the number."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    OK = 0, "done"
    INTEGRITY = 1, "integrity failure: something is altered, missing or unexpected"
    USAGE = 2, "usage error or bad input"
    SOURCE = 3, "a source is not reachable, or does not have what was asked for"
    FILESYSTEM = 4, "no space left, or another file-system failure"
    TARGET = 5, "the target does not fit (driver, glibc, GPU, memory, path)"
    SERVER = 6, "the server did not come up"
    INTERRUPTED = 130, "interrupted; run the same command again to continue"


def table() -> str:
    """The codes as lines of plain text, for --help."""
    return "\n".join(f"{code.value:>5}  {code.meaning}" for code in ExitCode)
