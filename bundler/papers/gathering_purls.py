"""Package URLs: how the rest of the world names what a bundle holds.

Format: https://github.com/package-url/purl-spec, and its `types/` for what each type means.
"""

from packageurl import PackageURL

from manifests.lock import CondaPackage

_HUB = "hf:"


def wheel(name: str, version: str, filename: str = "", sha256: str = "") -> str:
    """A wheel; of what a host provides neither file nor digest is known."""
    qualifiers = {"file_name": filename, "checksum": f"sha256:{sha256}" if sha256 else ""}
    return PackageURL("pypi", None, name, version, qualifiers).to_string()


def conda(package: CondaPackage) -> str:
    """A conda package, of the channel that its URL names; a folder has no name that others know."""
    filename = package.url.rpartition("/")[2]
    channel = package.url.removesuffix(f"{package.subdir}/{filename}").rstrip("/:")
    qualifiers = {
        "build": package.build,
        "channel": "" if channel == "file" else channel.rpartition("/")[2],
        "subdir": package.subdir,
        "type": "conda" if filename.endswith(".conda") else "tar.bz2",
        "checksum": f"sha256:{package.sha256}",
    }
    return PackageURL("conda", None, package.name, package.version, qualifiers).to_string()


def model(source: str, revision: str) -> str:
    """A model or an adapter: of the Hub by its commit, else what nobody has published."""
    if source.startswith(_HUB):
        organisation, _, name = source.removeprefix(_HUB).rpartition("/")
        return PackageURL("huggingface", organisation, name, revision).to_string()
    return PackageURL("generic", None, source.partition(":")[2], revision).to_string()


def code(name: str, version: str) -> str:
    """Code that comes with the bundle itself, and is in no index."""
    return PackageURL("generic", None, name, version).to_string()
