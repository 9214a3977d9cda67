"""Tiny bundles with a real lock, for what reads more of a bundle than its bytes."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from manifests import bundle, lock
from manifests.lock import CondaPackage, Derived, Lock, Model, ModelFile, Target, Wheel
from tests.support.simulator import CREATED, MODEL, Content, Simulator, sha256

DERIVED = Derived("c-3-py3-none-any.whl", "https://index/c.whl", "9" * 64, lock.PUBLISHED, ("x",))


def wheel(name: str, version: str = "1", digit: str = "0", **changes: Any) -> Wheel:
    filename = f"{name}-{version}-py3-none-any.whl"
    url = f"https://files.example/{filename}"
    plain = Wheel(name, version, filename, url, digit * 64, size=1000)
    return dataclasses.replace(plain, **changes)


def conda(name: str, version: str = "1", build: str = "h0_0", digit: str = "0") -> CondaPackage:
    url = f"https://channel.example/linux-64/{name}-{version}-{build}.conda"
    return CondaPackage(name, version, build, "linux-64", url, digit * 64, 2000)


def a_lock(**changes: Any) -> Lock:
    model = Model(
        "tiny",
        "folder:tiny",
        "0" * 40,
        tuple(ModelFile(path, len(data), sha256(data)) for path, data in MODEL.items()),
        licence="apache-2.0",
    )
    plain = Lock(
        schema=lock.SCHEMA,
        created=CREATED,
        target=Target(("cpu",), "2.28", "3.11"),
        stack="test",
        channel="https://channel.example",
        flavour="test",
        conda=(conda("python", "3.11.9"), conda("libgcc", "15")),
        runtime_conda=(conda("python", "3.11.9"),),
        wheels=(
            wheel("a"),
            wheel("b", "2", digest_from=lock.COMPUTED, url="file:b-2-py3-none-any.whl"),
            wheel("c", "3+repaired", url="derived:c.whl", derived=DERIVED),
        ),
        runtime_wheels=(wheel("zstandard", "0.25.0"),),
        model=model,
    )
    return dataclasses.replace(plain, **changes)


@dataclass
class Locked(Simulator):
    """A bundle whose lock is one, and whose manifest agrees with it."""

    lock: Lock = dataclasses.field(default_factory=a_lock)
    environment: Content | None = None
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)  # of the manifest

    def contents(self) -> dict[str, bytes]:
        return {**super().contents(), bundle.LOCK_MEMBER: self.lock.dump()}

    def manifest(self) -> bundle.Manifest:
        plain = super().manifest()
        needs = bundle.Needs("2.28", ("avx2", "avx512f"), 4 << 30)
        model = dataclasses.replace(plain.model, licence=self.lock.model.licence)
        return dataclasses.replace(
            plain,
            **{
                "target": self.lock.target,
                "stack": self.lock.stack,
                "flavour": self.lock.flavour,
                "needs": needs,
                "model": model,
                "lock_sha256": self.lock.digest(),
                "derived": (DERIVED,),
                "unpublished": ("b-2-py3-none-any.whl: sha256 computed here",),
                **self.changes,
            },
        )
