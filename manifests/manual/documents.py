"""The manual as the files that a bundle carries: members of its archive, and what `docs/` holds."""

from manifests.manual import page, text, topics

#: The folder in the archive, and in an installed release.
FOLDER = "docs/"


def documents() -> dict[str, bytes]:
    """Path in the archive → bytes: the manual as one page, and as plain text in each language."""
    found = {f"{FOLDER}manual.html": page.render()}
    found |= {f"{FOLDER}manual.{language}.txt": _plain(language) for language in topics.LANGUAGES}
    return {path: content.encode("utf-8") for path, content in sorted(found.items())}


def _plain(language: str) -> str:
    """All topics in one file, each under its name, which is what a search in it looks for."""
    parts = [text.listing(language)]
    parts += [f"[{one.name}]\n\n{text.render(one)}" for one in topics.all_topics(language)]
    return "\n\n\n".join(parts) + "\n"
