"""The little that is read from a model card: its licence."""

import re

_FRONT_MATTER = re.compile(r"\A---\r?\n(.*?)\r?\n---", re.DOTALL)
_FIELD = re.compile(
    r"^(?P<key>license|license_name):[ \t]*['\"]?(?P<value>[\w .+-]+?)['\"]?[ \t]*\r?$",
    re.MULTILINE,
)


def licence_of(card: str) -> str:
    """The licence that a README states in its front matter; empty where it states none.

    Format: https://huggingface.co/docs/hub/model-cards#model-card-metadata. "other" stands for
    the name given beside it.
    """
    front = _FRONT_MATTER.match(card)
    found = _FIELD.finditer(front[1]) if front else ()
    fields: dict[str, str] = {field["key"]: field["value"] for field in found}
    licence = fields.get("license", "")
    return fields.get("license_name", licence) if licence == "other" else licence
