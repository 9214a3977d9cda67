"""An approval as `bundle record` makes it of an ordinary GPU bundle, without its gigabytes."""

import hashlib
from typing import Any

from bundler.papers import approvalshares
from manifests import approval, bundle, tree
from manifests.approval import (
    Approval,
    Audited,
    Count,
    File,
    Installation,
    Installed,
    Instance,
    Licences,
    Medium,
    Signer,
    Sources,
    Vulnerabilities,
)
from manifests.approvalrelease import of_manifest
from manifests.bundle import Manifest, Member, Needs, ServedModel
from manifests.lock import Lock, Target
from manifests.stack import Server
from tests.support.locked import a_lock, wheel

#: Megabytes of the environment's packages, installed.
_PACKAGES = {
    "nvidia/cudnn": 1022,
    "nvidia/cublas": 851,
    "nvidia/nccl": 391,
    "nvidia/cusparse": 420,
    "cusparselt": 330,
    "nvidia/cusolver": 391,
    "nvidia/cufft": 280,
    "torch": 1720,
    "triton": 420,
    "vllm": 980,
    "flashinfer_cubin": 512,
    "cv2": 130,
    "transformers": 88,
    **{f"package_{number}": number // 7 + 1 for number in range(120)},
}
WHEELS = {
    "torch": "2.10.0",
    "vllm": "0.19.1",
    "nvidia-cuda-runtime-cu12": "12.8.90",
    "triton": "3.6.0",
}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _file(path: str, megabytes: float) -> tree.Entry:
    return tree.Entry(path, size=round(megabytes * 1e6), sha256=_digest(path))


def a_manifest(**changes: Any) -> Manifest:
    site = "lib/python3.12/site-packages"
    files = [_file(f"{site}/{name}/all.so", size) for name, size in _PACKAGES.items()]
    files += [_file("bin/python3.12", 31), _file("lib/libstdc++.so.6", 12)]
    shards = [
        Member(
            f"model/model-0000{n}-of-00004.safetensors",
            bundle.MODEL,
            6_900_000_000,
            _digest(f"shard {n}"),
        )
        for n in range(1, 5)
    ]
    plain: dict[str, Any] = {
        "schema": 1,
        "name": "qwen3.5-14b+vllm-0.19.1+sm_86",
        "sequence": 1_764_547_200,
        "created": 1_764_547_200,
        "tool": "vllm-bundle 0.1.0",
        "target": Target(("sm_86", "sm_90"), "2.31", "3.12", "x86_64", "535.104.05", 24 << 30, 2),
        "stack": "vllm-0.19.1-cu128",
        "flavour": "pypi",
        "server": Server("vllm.entrypoints.openai.api_server", ("--gdn-prefill-backend", "triton")),
        "needs": Needs("2.31", ("avx2",), 9 << 30, ("sm_86", "sm_90"), "525.60.13"),
        "model": ServedModel(
            "Qwen3.5-14B",
            "hf:Qwen/Qwen3.5-14B",
            "851bf6e806ef6e3c8fa8b1a1a43be6dcf23d6e3f",
            "apache-2.0",
        ),
        "thinking": True,
        "lock_sha256": _digest("lock"),
        "members": (
            Member("runtime.tar.gz", bundle.RUNTIME, 31_000_000, _digest("runtime")),
            Member("env.tar.zst", bundle.ENVIRONMENT, 4_900_000_000, _digest("env")),
            Member("bundle.lock", bundle.DOCUMENT, 190_000, _digest("lock")),
            Member("model/config.json", bundle.MODEL, 1_200, _digest("config")),
            *shards,
        ),
        "environment": tuple(files),
        "runtime": (_file("bin/python3", 82),),
    }
    return Manifest(**{**plain, **changes})


def lock_of(manifest: Manifest) -> Lock:
    wheels = tuple(wheel(name, version) for name, version in WHEELS.items())
    return a_lock(target=manifest.target, stack=manifest.stack, wheels=wheels)


def an_approval(manifest: Manifest | None = None, **changes: Any) -> Approval:
    manifest = manifest or a_manifest()
    digest = bundle.digest_of(manifest.dump())
    name, most = manifest.name, 25_000_000_000
    length = manifest.archive_length(len(manifest.dump()))
    plain: dict[str, Any] = {
        "form": approval.FORM,
        "kind": approval.APPROVAL,
        "tool": "vllm-bundle 0.1.0",
        "release": of_manifest(manifest, digest, lock_of(manifest)),
        "medium": Medium(
            _digest("list"),
            digest,
            tuple(
                File(f"{name}.tar.{n:03}", _digest(f"volume {n}"), size)
                for n, size in enumerate((most, length - most))
            ),
            Signer("ssh", "SHA256:" + "Ab3/" * 10 + "xyz", checked=True),
        ),
        "sources": Sources(
            channel="https://conda.example.org/conda-forge",
            wheels=(Count("files.pythonhosted.org", 168), Count("derived", 2)),
            conda=41,
            built=("flash-attn 2.8.3+cu128torch2.10",),
            repaired=2,
            unpublished=1,
        ),
        "shares": approvalshares.shares(manifest),
        "licences": Licences(
            (
                Count("permissive", 171),
                Count("weak copyleft", 14),
                Count("proprietary", 16),
                Count("unknown", 3),
            ),
            (
                Count("nvidia", 16),
                Count("models", 1),
                Count("exception", 2),
                Count("weak", 12),
                Count("nothing", 2),
                Count("prose", 1),
            ),
        ),
        "vulnerabilities": Vulnerabilities(
            "2026-11-28T00:00:00Z",
            (Count("high", 1), Count("low", 2)),
            ("GHSA-xxxx-yyyy-zzzz aiohttp 3.13.2",),
            ignored=1,
        ),
    }
    return Approval(**{**plain, **changes})


def an_installation(approved: Approval | None = None, **changes: Any) -> Installation:
    """What an audit finds where that approval was installed, and nothing is wrong."""
    release = (approved or an_approval()).release
    served = bundle.release_id(release.name, release.manifest_sha256)
    plain: dict[str, Any] = {
        "form": approval.FORM,
        "kind": approval.INSTALLATION,
        "tool": "vllm-bundle 0.1.0",
        "releases": (Installed(release),),
        "audited": Audited(clean=True, files=41_872, size=release.installed),
        "trusted": ("SHA256:" + "Ab3/" * 10 + "xyz",),
        "instances": (Instance("default", served, "Qwen3.5-14B"),),
    }
    return Installation(**{**plain, **changes})
