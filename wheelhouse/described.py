"""A chosen file as it stands in a lock: with the digest that its source published."""

from collections.abc import Sequence

from packaging.utils import canonicalize_name

from manifests.digests import hash_file
from manifests.errors import IntegrityError, SourceError, from_oserror
from manifests.lock import COMPUTED, PUBLISHED, Wheel
from wheelhouse.fitness import Candidate
from wheelhouse.index import Link


def describe(found: Candidate, candidates: Sequence[Candidate]) -> Wheel:
    """A candidate as it stands in a lock.

    Raises IntegrityError where two sources publish other bytes under its file name.
    """
    link = found.link
    published = {
        candidate.link.sha256: candidate.link
        for candidate in candidates
        if candidate.link.filename == link.filename and candidate.link.sha256
    }
    digest = link.sha256 or computed(link)
    if digest and set(published) - {digest}:
        raise IntegrityError(
            f"{link.filename}: two sources have different bytes under this name",
            findings=[f"{digest}  {link.url}"]
            + [f"{other}  {published[other].url}" for other in published if other != digest],
            mend="remove the wrong one, or name only one of the sources",
        )
    if digest in published:
        link = published[digest]
    assert found.version is not None  # only judged files with a version are chosen
    return Wheel(
        name=canonicalize_name(link.filename.split("-")[0]),
        version=str(found.version),
        filename=link.filename,
        url=f"file:{link.filename}" if link.local else link.url,
        sha256=digest,
        digest_from=PUBLISHED if link.sha256 else COMPUTED,
        size=link.size,
    )


def computed(link: Link) -> str:
    """The sha256 of a file in a local folder, where nobody publishes one.

    Raises SourceError for a file that is anywhere else, FilesystemError.
    """
    if link.local is None:
        raise SourceError(
            f"{link.filename}: its source publishes no sha256 for it",
            why="without one nothing could tell whether the file was altered on its way",
            mend="download it by hand, check it, and name its folder with --find-links",
        )
    try:
        return hash_file(link.local)
    except OSError as error:
        raise from_oserror(error, f"hashing {link.filename}", link.local) from error
