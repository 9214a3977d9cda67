"""The settings as `config show` has them: value, default, origin, what it is for."""

import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from typing import Any

from bundlectl import config
from bundlectl.config import ServeConfig
from bundlectl.redaction import of_variable
from bundlectl.settingsedit import as_toml


@dataclass(frozen=True)
class Row:
    """A key as `show` has it."""

    key: Field[Any]
    value: Any
    source: str  # "file", "default" or "fit"
    line: int  # of the file; 0 where it doesn't stand there
    chosen: str  # by the sums about memory: value and reason

    @property
    def text(self) -> str:
        """For people: the documentation, the line as it would stand in the file, its origin."""
        about = "".join(f"# {line}\n" for line in self.key.metadata["about"])
        origin = f"line {self.line}" if self.line else "default"
        chosen = f"; chosen: {self.chosen}" if self.chosen else ""
        return f"{about}{self.key.name} = {as_toml(_shown(self.value))}   ({origin}{chosen})\n"

    @property
    def record(self) -> dict[str, Any]:
        """For machines."""
        return {
            "key": self.key.name,
            "value": _shown(self.value),
            "default": config.default_of(self.key),
            "source": self.source,
            "line": self.line,
            "chosen": self.chosen,
            "about": " ".join(self.key.metadata["about"]),
        }


def _shown(value: Any) -> Any:
    """A value without the secrets that variables hold."""
    if isinstance(value, dict):
        return {name: of_variable(name, text) for name, text in value.items()}
    return value


def rows(text: str, settings: ServeConfig, chosen: Mapping[str, str]) -> tuple[Row, ...]:
    """Every key. `text` is the file's, `chosen` what the sums about memory say of a key."""
    told = tomllib.loads(text)
    found = []
    for key in fields(ServeConfig):
        value, there = getattr(settings, key.name), key.name in told
        # A key that is left open in the file (0) is chosen all the same.
        reason = chosen.get(key.name, "") if value == config.default_of(key) else ""
        source = "fit" if reason else "file" if there else "default"
        line = config.line_of(text, key.name) if there else 0
        found.append(Row(key, value, source, line, reason))
    return tuple(found)
