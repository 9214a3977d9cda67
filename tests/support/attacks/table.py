"""The table of attacks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from manifests.exitcodes import ExitCode

#: Who has to see an attack first: install.sh, or the reader that it starts.
SCRIPT, READER = "install.sh", "reader"
F = TypeVar("F", bound=Callable[..., None])


@dataclass(frozen=True)
class Attack:
    """One attack, and how it has to end."""

    name: str
    told: str  # what the message has to name
    door: str = READER
    audited: bool = True  # False: the bytes are those that the manifest names
    volumes: bool = False
    code: ExitCode = ExitCode.INTEGRITY

    def commit(self, bundle: object) -> None:
        getattr(bundle, self.name)()


ATTACKS: dict[str, Attack] = {}


def attack(told: str, **how: Any) -> Callable[[F], F]:
    """Put a method into the table."""

    def enter(method: F) -> F:
        name = method.__name__
        ATTACKS[name] = Attack(name, told, **how)
        return method

    return enter
