"""The import table of CONTRIBUTING.md: dependencies point one way."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "manifests": ROOT / "manifests",
    "wheelhouse": ROOT / "wheelhouse",
    "bundler": ROOT / "bundler",
    "bundlectl": ROOT / "installer/bundlectl",
}
OURS = set(ROOMS)
#: room → (our rooms, third-party packages); None: any.
ALLOWED: dict[str, tuple[set[str], set[str] | None]] = {
    "manifests": (set(), {"xxhash", "tqdm", "pyeclib"}),
    "wheelhouse": ({"manifests"}, None),
    "bundler": ({"manifests", "wheelhouse"}, None),
    "bundlectl": ({"manifests"}, {"zstandard", "h11"}),
}
#: Libraries that one place alone may know.
KEEPERS = {
    "rattler": {"bundler/conda.py", "bundler/hostchannel.py"},
    "conda_pack": {"bundler/packplan.py"},
    "huggingface_hub": {
        "bundler/models/catalogue.py",
        "bundler/models/hub.py",
        "bundler/models/download.py",
        "bundler/models/transport.py",
    },
    "cryptography": {"bundler/signing/"},
    "h11": {
        "installer/bundlectl/front.py",
        "installer/bundlectl/httppeer.py",
        "installer/bundlectl/relay.py",
    },
    "cvss": {"bundler/papers/vulns_severity.py"},
    "yaml": {"bundler/papers/vulns_dump.py"},
    "cyclonedx": {"bundler/papers/sbom.py"},
    "license_expression": {"bundler/plan/spdx.py"},
    "pip_audit": {"bundler/papers/vulns_service.py"},
    "picklescan": {"bundler/papers/pickles_judge.py"},
    "packageurl": {"bundler/papers/gathering_purls.py", "bundler/papers/sbom.py"},
    "segno": {"bundler/papers/qr.py"},
    "pyeclib": {"manifests/parity/codec.py"},
    "model_signing": {"bundler/signing/sidecar.py"},
    "click": {"bundler/cli.py", "bundler/options.py", "bundler/commands/"},
    "zstandard": {
        "bundler/caches.py",
        "bundler/condapackage.py",
        "bundler/pack.py",
        "bundler/papers/gathering_conda.py",
        "installer/bundlectl/caches.py",
        "installer/bundlectl/frames.py",
        "wheelhouse/members.py",
    },
}


def modules() -> list[tuple[str, Path]]:
    return [(room, path) for room, base in ROOMS.items() for path in sorted(base.rglob("*.py"))]


def imported(path: Path) -> set[str]:
    """Top-level names that a module imports anywhere, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    ("room", "path"), modules(), ids=lambda value: str(value).removeprefix(f"{ROOT}/")
)
def test_imports_point_one_way(room, path):
    ours, others = ALLOWED[room]
    for name in imported(path) - set(sys.stdlib_module_names) - {room}:
        if name in OURS:
            assert name in ours, f"{room} may not import {name}"
        else:
            assert others is None or name in others, f"{room} may not import {name}"


@pytest.mark.parametrize("library", sorted(KEEPERS))
def test_a_library_is_known_to_one_place(library):
    users = {str(path.relative_to(ROOT)) for _, path in modules() if library in imported(path)}
    assert users
    for path in users:
        assert path.startswith(tuple(KEEPERS[library]))


@pytest.mark.parametrize("room", sorted(OURS))
def test_the_check_sees_something(room):
    assert sum(1 for name, _ in modules() if name == room) >= 5
