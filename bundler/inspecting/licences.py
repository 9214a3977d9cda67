"""What the wheels in an environment state as their licences, read without unpacking it.

Nothing but METADATA is looked at, and each is compared with the manifest's digest.
"""

import re
from email.parser import HeaderParser

from bundler.inspecting.subject import Subject
from bundler.plan import licences
from manifests.bundle import digest_of
from manifests.console import Progress, ignore_progress
from manifests.errors import Damage
from wheelhouse.members import members

#: Where a wheel's METADATA is once installed; and how it starts in all releases of the format
#: (https://packaging.python.org/specifications/core-metadata/).
_METADATA = re.compile(r".*/site-packages/[^/]+\.dist-info/METADATA")
_START = b"Metadata-Version:"


def stated(subject: Subject, progress: Progress = ignore_progress) -> dict[str, str]:
    """Licence by normalised name of wheel; empty text where a wheel states none.

    `progress` hears of the bytes passed over. Raises IntegrityError where the environment is not
    the manifest's.
    """
    assert subject.manifest is not None
    digests = {entry.path: entry.sha256 for entry in subject.manifest.environment}
    found = {}
    for member in members(subject.environment, magic=_START, progress=progress):
        if member.target or not _METADATA.fullmatch(member.path):
            continue
        with member.content() as view:
            data = bytes(view)
        if digest_of(data) != digests.get(member.path):
            expected = digests.get(member.path, "no such file")
            raise Damage(member.path, expected, digest_of(data), mend="bundle audit names all")
        text = data.decode("utf-8", "replace")
        name = HeaderParser().parsestr(text, headersonly=True).get("Name", "")
        found[re.sub(r"[-_.]+", "-", name).lower()] = licences.of_metadata(text).text
    return found
