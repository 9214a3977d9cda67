"""JSON Schemas (draft 2020-12) of what is written for machines; https://json-schema.org/."""

from importlib import resources

NAMES = ("inspect", "diff", "manifest")


def text(name: str) -> str:
    """The schema of that name."""
    return (resources.files(__name__) / f"{name}.json").read_text("utf-8")
