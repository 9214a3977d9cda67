"""Sign a bundle's list and check its signature: the connected side's cryptography."""

from bundler.signing.bundles import Signature, sign, verify
from bundler.signing.keys import Signer, load_public, load_signer
from bundler.signing.newkey import KeyPair, write_pair

__all__ = [
    "KeyPair",
    "Signature",
    "Signer",
    "load_public",
    "load_signer",
    "sign",
    "verify",
    "write_pair",
]
