"""Divide a bundle's files into blocks, and its parity into files."""

from dataclasses import replace

from bundler.carried import Carried
from manifests import archive, bundle
from manifests.errors import UsageError
from manifests.medium import INSTALLER
from manifests.parity import front, scheme
from manifests.parity.names import spare_names
from manifests.parity.scheme import Protected, Scheme, Spare
from manifests.volumes import MOST

#: Bytes of the header for the digest of a leaf: with quotes and a comma.
_LEAF_TEXT = 67
#: Bytes for what the header will say besides: how long it is, and that there are leaves.
_ROOM = 64
_FRONT_STEP = 4096


def layout(found: Carried, percent: int) -> Scheme:
    """Where the parity of a bundle will lie; its digests are not known yet.

    Raises UsageError where a volume is missing or volumes are too small, IntegrityError where one
    has not the length that it has to have.
    """
    source, manifest = found.medium, found.manifest
    listed, pieces = source.listed(), source.pieces()
    files = []
    for name in (*(piece.name for piece in pieces), INSTALLER):
        path = source.folder / name
        if not path.is_file():
            raise UsageError(
                f"{path}: missing",
                why="parity is made of all files of a bundle together",
                mend="copy the volumes into one folder, or make parity where they were written",
            )
        files.append(Protected(name, path.stat().st_size, listed[name]))
    source.check_lengths(found.length)
    (runtime,) = manifest.of_role(bundle.RUNTIME)
    head = archive.member_length(archive.MANIFEST_NAME, len(found.data))
    head += archive.member_length(runtime.path, runtime.size)
    head += archive.BLOCK if pieces[0].label is not None else 0
    block = scheme.block_size(sum(file.size for file in files))
    plan = Scheme(scheme.SCHEMA, percent, block, tuple(files), head)
    limit = files[0].size if pieces[0].label is not None else 0
    return with_spares(plan, limit)


def with_spares(plan: Scheme, limit: int) -> Scheme:
    """Divide the parity into files of at most `limit` bytes (0: into one)."""
    total = plan.parity * plan.columns
    digests = plan.blocks * scheme.DIGEST_SIZE + -(-plan.blocks // scheme.LEAF) * _LEAF_TEXT
    least = -(-total * plan.block // limit) if limit else 1
    for count in range(least, MOST + 1):
        each = -(-total // count)
        starts = range(0, total, each)
        names = spare_names(plan.files[0].name, len(starts))
        spares = tuple(
            Spare(name, start, min(each, total - start))
            for name, start in zip(names, starts, strict=True)
        )
        laid = replace(plan, spares=spares)
        needed = front.LINE_SIZE + len(laid.dump()) + digests + _ROOM
        laid = replace(laid, front=-(-needed // _FRONT_STEP) * _FRONT_STEP)
        if not limit or 2 * laid.front + each * plan.block <= limit:
            return laid
    raise UsageError(
        f"volumes of {limit} bytes are too small for parity of {total * plan.block} bytes",
        mend="choose a larger --volume-size, or less parity",
    )
