"""Read a finished bundle for its parity: once along the files, once along the columns."""

import os
from hashlib import sha256
from pathlib import Path

from manifests.console import Progress
from manifests.digests import BackgroundHasher, chunks
from manifests.digests import sha256 as new_hasher
from manifests.errors import Damage, IntegrityError
from manifests.parity import scheme
from manifests.parity.codec import Codec
from manifests.parity.finish import write_at
from manifests.parity.scheme import ROWS, Scheme
from manifests.reader import COPY_AGAIN


def digests_of(folder: Path, plan: Scheme, progress: Progress) -> bytes:
    """sha256 of every block of data; each file is compared with the list."""
    digests = bytearray()
    for file in plan.files:
        whole = BackgroundHasher(new_hasher())
        try:
            with (folder / file.name).open("rb", buffering=0) as source:
                os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
                for view in chunks(source, chunk=plan.block):
                    whole.update(view)
                    digests += sha256(view).digest()
                    progress(len(view))
        finally:
            found = whole.hexdigest()
        if found != file.sha256:
            raise Damage(file.name, file.sha256, found, mend=COPY_AGAIN)
    return bytes(digests)


def code(
    folder: Path, plan: Scheme, table: bytes, drafts: dict[str, int], progress: Progress
) -> bytes:
    """Write all parity; the sha256 of its blocks."""
    codec = Codec(ROWS, plan.parity, plan.block)
    digests = bytearray(plan.parity * plan.columns * scheme.DIGEST_SIZE)
    with _Blocks(folder, plan, table) as blocks:
        for column in range(plan.columns):
            rows = [blocks.read(plan.at(row, column)) for row in range(ROWS)]
            progress(sum(map(len, rows)))
            for row, data in enumerate(codec.encode(rows)):
                index = row * plan.columns + column
                spare = next(s for s in plan.spares if s.first <= index < s.first + s.count)
                write_at(drafts[spare.name], data, plan.front + (index - spare.first) * plan.block)
                start = index * scheme.DIGEST_SIZE
                digests[start : start + scheme.DIGEST_SIZE] = sha256(data).digest()
    return bytes(digests)


class _Blocks:
    """The blocks of data of a bundle's files, by number; each is compared again."""

    def __init__(self, folder: Path, plan: Scheme, table: bytes) -> None:
        self._plan = plan
        self._table = table
        self._files = {
            file.name: (folder / file.name).open("rb", buffering=0) for file in plan.files
        }

    def __enter__(self) -> "_Blocks":
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._files.values():
            handle.close()

    def read(self, number: int | None) -> bytes:
        """A block, with zeros to its full size; None: the zeros after the last."""
        if number is None:
            return bytes(self._plan.block)
        run = self._plan.run(number)
        data = os.pread(self._files[run.name].fileno(), run.size, run.offset)
        start = number * scheme.DIGEST_SIZE
        if sha256(data).digest() != self._table[start : start + scheme.DIGEST_SIZE]:
            raise IntegrityError(
                f"{run.name}: changed while parity was made", mend="run the same command again"
            )
        return data.ljust(self._plan.block, b"\0")
