"""A flash-attn wheel that the user brings: inspected as one of our own would be, then taken."""

from pathlib import Path

from manifests.errors import TargetError, UsageError, from_oserror
from manifests.lock import COMPUTED, Target, Wheel
from wheelhouse.flashattn.fitting import Needs, minor, misfits, name_of
from wheelhouse.store import Store


def inspect(
    wheel: Path,
    target: Target,
    *,
    version: str,
    torch: str,
    cuda: str,
    store: Store,
    torch_place: Path | None = None,
) -> Wheel:
    """Take a wheel into the store if it fits the target and the stack's torch and CUDA releases.

    `torch_place`, torch's wheel or library folder, lets its symbols be compared too. Nobody
    publishes a digest for such a file: the one computed here protects the way from here on.

    Raises UsageError where it is no flash-attn wheel, IntegrityError where it is damaged,
    TargetError naming everything that does not fit, FilesystemError.
    """
    _, built, _ = name_of(wheel.name)
    if not wheel.is_file():
        raise UsageError(f"{wheel}: no such file", mend="name a wheel that exists")
    needs = Needs(
        version=version,
        python=target.python,
        arch=target.arch,
        glibc=target.glibc,
        gpus=target.gpus,
        torch=torch,
        cuda=cuda,
        torch_place=torch_place,
    )
    try:
        # Judged is what was taken: the user's file may change under us.
        with wheel.open("rb", buffering=0) as handle:
            digest = store.adopt(handle)
        size = store.path(digest).stat().st_size
    except OSError as error:
        raise from_oserror(error, "reading the wheel", wheel) from error
    found = misfits(store.path(digest), wheel.name, needs)
    if found:
        raise TargetError(
            f"{wheel.name} does not fit the target",
            findings=found,
            mend=f"bring a wheel for Python {target.python}, torch {minor(torch)} and CUDA {cuda}, "
            "or use --with-flash-attn: it is built for this target",
        )
    return Wheel(
        name="flash-attn",
        version=str(built),
        filename=wheel.name,
        url=f"file:{wheel.name}",
        sha256=digest,
        digest_from=COMPUTED,
        size=size,
    )
