"""OpenSSF model-signing: a second signature, of all files of the bundle, for their own tool.

An extra (`pip install vllm-bundle[model-signing]`). It works offline with the key that signs
SHA256SUMS; Sigstore's servers, which the library uses by default, are never asked.
"""

from pathlib import Path

from bundler.signing.bundles import list_bytes
from bundler.signing.keys import Passphrase, load_signer
from manifests import signature
from manifests.errors import UsageError, from_oserror


def sign_sidecar(folder: Path, key: Path, passphrase: Passphrase, *, replace: bool = False) -> Path:
    """Write model.sig, which names and hashes every file of the folder but the signatures.

    Checked on any machine that has the tool with `model_signing verify key`. Raises UsageError
    where the extra is not installed, there is such a file, or the key is none for openssl.
    """
    try:
        from model_signing import hashing, signing
    except ImportError as error:
        raise UsageError(
            "OpenSSF model-signing is not installed",
            why=str(error),
            mend="pip install 'vllm-bundle[model-signing]'",
        ) from None
    asked = _Once(passphrase)
    load_signer(key, asked, signature.OPENSSL)
    list_bytes(folder)
    path = folder / signature.SIDECAR
    if path.exists() and not replace:
        raise UsageError(f"{path}: exists already", mend="replace it with --force")
    draft = path.with_name(f".{path.name}.new")
    ignored = [path, draft, folder / signature.FILE_NAME]
    # Theirs is annotated as text, but handed on to a function that takes bytes only (1.1.1).
    password = asked.given.encode("utf-8") or None
    config = signing.Config().use_elliptic_key_signer(private_key=key, password=password)
    config.set_hashing_config(hashing.Config().set_ignored_paths(paths=ignored))
    try:
        config.sign(folder, draft)
        draft.chmod(0o644)
        draft.replace(path)
    except OSError as error:
        raise from_oserror(error, "writing the sidecar", error.filename or path) from None
    finally:
        draft.unlink(missing_ok=True)
    return path


class _Once:
    """A passphrase that is asked for once, though two libraries open the key."""

    def __init__(self, ask: Passphrase) -> None:
        self._ask = ask
        self.given = ""

    def __call__(self) -> str:
        self.given = self.given or self._ask()
        return self.given
