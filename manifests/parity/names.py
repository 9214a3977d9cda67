"""The names of what lies beside a bundle that has parity."""

import re

#: The same bytes as install.sh: what is started where that is damaged.
RESTORER = "restore.sh"
_SPARE = re.compile(r"(.+)\.parity(\.\d{3})?")
_PIECE = re.compile(r"(.+)\.tar(?:\.\d{3})?")


def _stem(piece: str) -> str:
    """The bundle's name, of an archive or of a volume."""
    match = _PIECE.fullmatch(piece)
    return match[1] if match else piece


def head_name(piece: str) -> str:
    """The file with a second copy of what install.sh starts from; `piece`: the archive's first."""
    return f"{_stem(piece)}.head"


def spare_names(piece: str, count: int) -> list[str]:
    """The files of parity of a bundle: one, or as many as volumes need."""
    name = f"{_stem(piece)}.parity"
    return [name] if count == 1 else [f"{name}.{number:03}" for number in range(count)]


def is_spare(name: str) -> bool:
    """Whether a name is a file of parity."""
    return _SPARE.fullmatch(name) is not None


def belongs(name: str, piece: str) -> bool:
    """Whether a file is there for restoring the bundle whose archive's first file is `piece`."""
    spare = _SPARE.fullmatch(name)
    return name in (RESTORER, head_name(piece)) or (spare is not None and spare[1] == _stem(piece))


def beside(name: str) -> bool:
    """Whether a listed name is there for restoring only: installing does not read it."""
    return name == RESTORER or is_spare(name) or name.endswith(".head")
