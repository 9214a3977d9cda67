"""What somebody with the medium in their hands can do to a bundle: one method for each attack.

Three depths, each of which gets past the checks of the one before it:

- the medium: bytes of its files change, their list does not;
- the archive: other headers and members, and SHA256SUMS is made to fit;
- the manifest: it says something that no honest packer writes, and install.sh and SHA256SUMS are
  made to fit, so that nothing but the rules for manifests and trees can refuse it.
"""

from tests.support.attacks.headers import InTheArchive
from tests.support.attacks.manifest import InTheManifest
from tests.support.attacks.medium import OnTheMedium
from tests.support.attacks.packed import InTheEnvironment
from tests.support.attacks.places import boundaries, regions
from tests.support.attacks.table import ATTACKS, READER, SCRIPT, Attack
from tests.support.attacks.trees import InTheTree
from tests.support.attacks.volumes import LARGE_MODEL, VOLUME, OnVolumes

__all__ = [
    "ATTACKS",
    "LARGE_MODEL",
    "READER",
    "SCRIPT",
    "VOLUME",
    "Attack",
    "BundleSimulator",
    "boundaries",
    "regions",
]


class BundleSimulator(
    OnTheMedium, InTheArchive, InTheManifest, InTheTree, InTheEnvironment, OnVolumes
):
    """A valid bundle, and a method for each attack on it; ATTACKS says how each has to end."""
