"""The highest sequence number that was installed of each product.

With it an old bundle, good signature and all, can't be slipped in for a newer one. A product is a
model: its bundle's name changes with every stack, and an old bundle with an old vLLM is just what
is to be refused. Going back to a release that is installed is another matter.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

from bundlectl import statefile
from bundlectl.layout import Layout
from manifests import FORMAT_VERSION, canonical
from manifests.bundle import Manifest
from manifests.errors import IntegrityError, UsageError
from manifests.records import to_data

_MEND = "take it all the same with --allow-downgrade"


@dataclass(frozen=True)
class Highest:
    """Product → sequence number; `state/sequences.json`."""

    schema: int
    products: dict[str, int] = field(default_factory=dict)

    def dump(self) -> bytes:
        """The canonical bytes of the record."""
        return canonical.dumps(to_data(self))

    def with_(self, manifest: Manifest) -> "Highest":
        """What is the highest after a bundle was installed."""
        product = product_of(manifest)
        highest = max(manifest.sequence, self.products.get(product, manifest.sequence))
        return replace(self, products={**self.products, product: highest})


def product_of(manifest: Manifest) -> str:
    """What bundles are versions of."""
    return manifest.model.name


def path_of(layout: Layout) -> Path:
    """Where the numbers are kept."""
    return layout.state / "sequences.json"


def load(layout: Layout) -> Highest:
    """The numbers so far.

    Raises IntegrityError where the record is damaged, FilesystemError where it can't be read.
    """
    return statefile.load(
        path_of(layout),
        Highest(FORMAT_VERSION),
        "reading the highest sequence numbers",
        "nobody can tell an older bundle from a newer one",
        "restore the file, or, if the bundle is known to be the newest, "
        "install it with --allow-downgrade, which writes the file anew",
    )


def check(layout: Layout, manifest: Manifest, allow_downgrade: bool = False) -> Highest:
    """The numbers as they are to be once the bundle is installed.

    Raises UsageError where a newer bundle of the product was installed before, and the errors of
    `load`; neither with `allow_downgrade`.
    """
    try:
        before = load(layout)
    except IntegrityError:
        if not allow_downgrade:
            raise
        before = Highest(FORMAT_VERSION)
    product = product_of(manifest)
    highest = before.products.get(product, manifest.sequence)
    if manifest.sequence < highest and not allow_downgrade:
        raise UsageError(
            f"{manifest.name}: older than a bundle of {product} that was installed before",
            why=f"its sequence number is {manifest.sequence}, the highest so far {highest}",
            mend=f"use the newer bundle; or, where this is meant, {_MEND}",
        )
    return before.with_(manifest)
