"""Read which GPUs the code in libraries, wheels, environments and bundles is for.

Nothing is run, nothing is unpacked as a whole, and no payload is decompressed: headers say it all.
"""

import zipfile
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from manifests.console import Progress, ignore_progress
from manifests.digests import workers as cores
from manifests.errors import IntegrityError, UsageError, from_oserror
from manifests.kernels import Inventory
from wheelhouse.kernels.look import Look, inventory, look
from wheelhouse.kernels.places import Piece, opened

__all__ = ["scan"]


def scan(place: Path, progress: Progress = ignore_progress, workers: int = 0) -> Inventory:
    """Everything that a place holds: a library, archive, cubin, wheel, folder or bundle.

    `progress` hears of bytes as `wheelhouse.members.size_of` counts them; what is not worth opening
    is passed over in silence. `workers` are threads, 0 for one per core: inflating releases the
    interpreter's lock, and so does the disk. A bundle is read in one stream.

    Raises UsageError where there is nothing, IntegrityError with file and offset where GPU code is
    cut off or garbled, or where an archive is damaged, FilesystemError where it can't be read.
    """
    if not place.exists():
        raise UsageError(
            f"{place}: no such file or folder",
            mend="name a .so, a .a, a .whl, an environment's folder or a bundle's folder",
        )
    try:
        with (
            opened(place, progress) as found,
            ThreadPoolExecutor(workers or cores()) as pool,
        ):
            return inventory(_looks(found, progress, pool))
    except OSError as error:
        raise from_oserror(error, f"reading {place}", error.filename or place) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        # zipfile's RuntimeError: encrypted, or compressed in a way that no wheel is.
        raise IntegrityError(
            f"{place}: damaged ({error})", mend="fetch or copy it again, and compare its digest"
        ) from error


def _looks(found: Iterator[Piece], progress: Progress, pool: ThreadPoolExecutor) -> list[Look]:
    waiting: list[tuple[Piece, Future[Look]]] = []
    done: list[Look] = []
    try:
        for piece in found:
            if piece.detached:
                waiting.append((piece, pool.submit(look, piece)))
            else:
                done.append(look(piece))
        for piece, future in waiting:
            done.append(future.result())
            progress(piece.size)
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    return done
