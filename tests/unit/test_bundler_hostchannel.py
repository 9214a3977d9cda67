"""Channels of this machine's interpreters, with real loaders, real patchelf and real pip."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bundler import borrowed, conda, hostchannel, hostlibs, hostpython
from bundler.borrowed import NUMA
from bundler.condapackage import PLACEHOLDER, Recipe, write
from bundler.hostlibs import package_name
from manifests.digests import hash_file
from manifests.errors import IntegrityError, SourceError, UsageError
from tests.support import conda_parts as parts

SYSTEM = "/usr/bin/python3"


def _has_debians_layout() -> bool:
    if not os.access(SYSTEM, os.X_OK):
        return False
    return hostpython.describe(SYSTEM).patched_layout


INTERPRETERS = [
    pytest.param(sys.executable, id="running"),
    pytest.param(
        SYSTEM,
        id="debian",
        marks=pytest.mark.skipif(not _has_debians_layout(), reason="no Debian or Ubuntu Python"),
    ),
]


def _environment(python: str, folder: Path) -> tuple[Path, str]:
    """An environment of any interpreter's channel; its prefix and Python series."""
    series = hostpython.describe(python).series
    source = parts.file_channel(parts.host_channel(python))
    wanted = replace(parts.target(), python=series)
    packages = conda.solve(source, [f"python {series}.*", "libnuma"], wanted, folder / "repodata")
    kept = parts.Store(folder / "store")
    conda.fetch(packages, source, parts.Fetcher(parts.Sources(""), kept))
    conda.create(packages, folder / "env", kept, folder / "cache")
    return folder / "env", series


@pytest.mark.parametrize("python", INTERPRETERS)
def test_the_copy_runs_and_pip_installs_where_upstream_would(python: str, tmp_path: Path) -> None:
    prefix, series = _environment(python, tmp_path)
    own = prefix / "bin" / "python"
    parts.pip_install(own, parts.wheel(tmp_path))

    site = prefix / "lib" / f"python{series}" / "site-packages"
    assert (site / "hello.py").is_file()
    assert parts.run(own, "-c", "import hello; print(hello.__file__)") == str(site / "hello.py")
    assert parts.run(prefix / "bin" / "hello") == f"hello from {prefix}"
    assert parts.run(own, "-c", "import platform; print(platform.python_version())") == (
        hostpython.describe(python).version
    )
    modules = "ssl, sqlite3, zlib, bz2, lzma, ctypes, uuid, readline, hashlib, decimal"
    assert parts.run(own, "-c", f"import {modules}; print(ssl.OPENSSL_VERSION)")
    asked = parts.run(
        own,
        "-c",
        "import json, site, sys, sysconfig; json.dump([sys.prefix, sysconfig.get_default_scheme(),"
        "sysconfig.get_paths()['purelib'], sysconfig.get_config_var('LIBDIR'),"
        "site.getsitepackages()], sys.stdout)",
    )
    assert json.loads(asked) == [
        str(prefix), "posix_prefix", str(site), str(prefix / "lib"), [str(site)],
    ]  # fmt: skip


@pytest.mark.parametrize("python", INTERPRETERS)
def test_the_copy_loads_only_its_own_libraries_and_glibc(python: str, tmp_path: Path) -> None:
    prefix, series = _environment(python, tmp_path)
    dynload = prefix / "lib" / f"python{series}" / "lib-dynload"
    elves = [prefix / "bin" / "python", *dynload.glob("*.so")]

    outside = {
        soname: path
        for soname, path in hostlibs.loaded(elves).items()
        if not path.resolve().is_relative_to(prefix)
    }
    assert outside == {}


def test_a_virtual_environment_counts_as_the_interpreter_it_was_made_from() -> None:
    assert hostpython.describe(sys.executable).prefix == sys.base_prefix


def test_no_text_of_the_copy_names_the_interpreters_folder(tmp_path: Path) -> None:
    found = hostpython.describe(sys.executable)
    hostpython.stage(found, tmp_path)

    if len(found.prefix) <= len("/usr/local"):
        pytest.skip("a distribution's prefix names nobody")
    holding = [
        path for path in tmp_path.rglob("*")
        if path.is_file()
        and found.prefix.encode() in (data := path.read_bytes())
        and not data.startswith(b"\x7fELF")
    ]  # fmt: skip
    assert holding == []


def test_the_same_interpreter_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    (tmp_path / "again/linux-64").mkdir(parents=True)
    (tmp_path / "again/linux-64/python-2.7.0-old_0.conda").write_bytes(b"of an earlier run")
    old = os.umask(0o077)
    try:
        again = hostchannel.build(
            tmp_path / "again",
            find=parts.without_numa,
            numa=parts.numa(),
            obtain=parts.numa_wheel,
        )
    finally:
        os.umask(old)

    def listing(channel: Path) -> dict[str, str]:
        return {str(p.relative_to(channel)): hash_file(p) for p in channel.rglob("*.conda")}

    first = listing(parts.host_channel())
    assert len(first) > 5
    assert listing(again) == first


def test_libraries_bring_their_licences(tmp_path: Path) -> None:
    library = hostlibs.installed("libgcc_s.so.1")
    assert library is not None
    if not hostlibs.debian_package(library):
        pytest.skip("no dpkg here")

    hostlibs.stage_licences(library, "libgcc", tmp_path)

    texts = {path.name for path in (tmp_path / "share" / "licenses" / "libgcc").iterdir()}
    assert "GPL-3" in texts
    assert any(name.endswith("-copyright") for name in texts)


def test_a_borrowed_library_gets_its_own_name_back(tmp_path: Path) -> None:
    borrowed.stage(parts.numa(), tmp_path, parts.numa_wheel)

    assert ctypes.CDLL(str(tmp_path / "lib" / "libnuma.so.1")).zlibVersion
    names = (
        subprocess.run(
            ["readelf", "-d", tmp_path / "lib" / "libnuma.so.1"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        if shutil.which("readelf")
        else "[libnuma.so.1]"
    )
    assert "[libnuma.so.1]" in names


def test_a_borrowed_library_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="expected 0000"):
        borrowed.stage(replace(parts.numa(), sha256="0" * 64), tmp_path, parts.numa_wheel)


def test_the_origin_of_a_borrowed_library_stands_in_its_package(tmp_path: Path) -> None:
    prefix, _ = _environment(sys.executable, tmp_path)

    (about,) = (tmp_path / "cache" / "packages").glob("libnuma-*/info/about.json")
    assert NUMA.requirement in about.read_text("utf-8")
    assert (prefix / "lib" / "libnuma.so.1").is_file()


def test_no_index_no_libnuma(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))

    with pytest.raises(SourceError, match=r"carries libnuma\.so\.1"):
        borrowed.download(NUMA, tmp_path / "wheels")


@pytest.mark.e2e
def test_the_published_wheel_carries_a_libnuma_that_vllm_can_use(tmp_path: Path) -> None:
    borrowed.stage(NUMA, tmp_path, lambda pin: borrowed.download(pin, tmp_path / "wheels"))

    library = ctypes.CDLL(str(tmp_path / "lib" / NUMA.soname))
    for symbol in ("numa_available", "numa_migrate_pages", "numa_set_membind", "numa_bitmask_free"):
        assert getattr(library, symbol)


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"glibc": ""}, "not glibc"),
        ({"machine": "aarch64"}, "aarch64"),
        ({"system": "darwin"}, "darwin"),
        ({"implementation": "pypy"}, "pypy"),
        ({"platlibdir": "lib64"}, "lib64"),
        ({"debug": True}, "debug build"),
    ],
)
def test_interpreters_that_can_not_be_copied_are_refused(
    change: dict[str, object], finding: str
) -> None:
    found = hostpython.describe(sys.executable)

    with pytest.raises(UsageError) as caught:
        hostpython.accept(replace(found, **change))  # type: ignore[arg-type]

    assert finding in "\n".join(caught.value.findings)
    assert "--channel" in caught.value.mend


def test_what_is_no_interpreter_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", "/bin/false"):
        with pytest.raises(UsageError, match="can't be run"):
            hostpython.describe(path)


@pytest.mark.parametrize(
    ("soname", "name"),
    [
        ("libstdc++.so.6", "libstdcxx"),
        ("libgcc_s.so.1", "libgcc"),
        ("libcrypto.so.3", "openssl"),
        ("libz.so.1", "libzlib"),
        ("libnuma.so.1", "libnuma"),
        ("libdb-5.3.so", "libdb"),
        ("libgdbm_compat.so.4", "libgdbm_compat"),
    ],
)
def test_package_names(soname: str, name: str) -> None:
    assert package_name(soname) == name


@pytest.mark.parametrize("soname", ["libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libdl.so.2"])
def test_glibc_is_never_taken(soname: str) -> None:
    assert hostlibs.is_glibc(soname)


@pytest.mark.parametrize("soname", ["libcrypt.so.1", "libcrypto.so.3", "libmpdec.so.3"])
def test_what_only_looks_like_glibc_is_taken(soname: str) -> None:
    assert not hostlibs.is_glibc(soname)


def test_a_package_marks_files_that_hold_the_prefix(tmp_path: Path) -> None:
    stage, channel = tmp_path / "stage", tmp_path / "channel"
    (stage / "etc").mkdir(parents=True)
    (stage / "etc" / "text").write_text(f"at {PLACEHOLDER}/lib\n")
    (stage / "etc" / "binary").write_bytes(b"\0" + PLACEHOLDER.encode() + b"/lib\0")
    (stage / "etc" / "plain").write_bytes(b"plain")
    (stage / "etc" / "link").symlink_to("plain")
    package = write(Recipe("small", "1"), stage, channel)
    (channel / "noarch").mkdir()
    prefix = tmp_path / "env"
    digest = hash_file(package)
    kept = parts.Store(tmp_path / "store")
    with package.open("rb") as handle:
        kept.adopt(handle)
    locked = conda.CondaPackage(
        "small", "1", "", "linux-64", f"host:linux-64/{package.name}", digest, 0
    )

    conda.create([locked], prefix, kept, tmp_path / "cache")

    assert (prefix / "etc" / "text").read_text() == f"at {prefix}/lib\n"
    assert (prefix / "etc" / "binary").read_bytes().startswith(f"\0{prefix}/lib\0".encode())
    assert (prefix / "etc" / "link").readlink() == Path("plain")
