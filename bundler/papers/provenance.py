"""Where a bundle comes from: an in-toto statement with SLSA provenance, from the bundle alone.

Statement: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md; predicate:
https://slsa.dev/spec/v1.0/provenance. It is a function of the finished bundle and, where there is
one, of the proof of its rehearsal: made anywhere and at any time it has the same bytes, which is
how it is checked (`provenance_check`). Nothing in it says who made the bundle, or on which machine,
unless a `builder_id` does.

Its type is BUILD_TYPE:

- `externalParameters`: what a person chose. `internalParameters`: what followed from it, and
  `commands`, which make the same manifest again. Folders and lists in them are the reader's own:
  a channel that is `file` stands for one in a folder, `FILE.caches.zst` is a member of the bundle.
- `stackSha256` is of the canonical JSON of the stack's settings for its server, as the manifest
  holds them: the rest of a stack is in the lock.
- `startedOn` is the lock's time, which SOURCE_DATE_EPOCH sets; there is no other.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bundler.inspecting.inspection import utc
from bundler.papers.provenance_inputs import Descriptor, caches_of, inputs
from manifests import archive, bundle, canonical, medium, sums
from manifests.bundle import LOCK_MEMBER, Manifest
from manifests.checkpoint import Rules
from manifests.lock import Adapter, Lock, Model
from manifests.names import public_url
from manifests.parity.names import is_spare
from manifests.records import to_data

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
#: Raised where the same bundle gets another statement than before.
BUILD_TYPE = "urn:vllm-bundle:create:1"
_BUILDER = "urn:vllm-bundle:builder:"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]{1,500}")
#: Papers that a bundle may carry about itself; its SBOM is one of them.
_PAPERS = "papers/"


@dataclass(frozen=True)
class Finished:
    """A bundle on its media, as far as its provenance speaks of it."""

    manifest: Manifest
    digest: str  # the manifest's sha256, which install.sh names
    lock: Lock
    listed: Mapping[str, str]  # file name → sha256, of SHA256SUMS
    list_sha256: str

    @property
    def name(self) -> str:
        """What its folder is called."""
        return self.manifest.folder_name

    @property
    def proof_name(self) -> str:
        """What the proof of its rehearsal is called."""
        return f"{self.name}.rehearsal.json"


def statement(
    made: Finished, rehearsal: Descriptor | None = None, builder_id: str = ""
) -> dict[str, Any]:
    """The statement; `rehearsal` is of `provenance_proof`, `builder_id` passes `is_builder`."""
    manifest = made.manifest
    return {
        "_type": STATEMENT,
        "subject": _subjects(made),
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": _external(made),
                "internalParameters": _internal(made),
                "resolvedDependencies": inputs(made.lock, manifest),
            },
            "runDetails": {
                "builder": {
                    "id": builder_id or builder_of(manifest),
                    "version": {"vllm-bundle": manifest.tool.rpartition(" ")[2]},
                },
                "metadata": {
                    "invocationId": f"sha256:{manifest.lock_sha256}",
                    "startedOn": utc(manifest.created),
                },
                "byproducts": [*_byproducts(manifest), *([rehearsal] if rehearsal else [])],
            },
        },
    }


def dump(value: dict[str, Any]) -> bytes:
    """The one text of a statement."""
    return canonical.dumps(value)


def _subjects(made: Finished) -> list[Descriptor]:
    """The manifest, the list that vouches for it, and each file that the list names."""
    digests = {
        archive.MANIFEST_NAME: made.digest,
        sums.FILE_NAME: made.list_sha256,
        **made.listed,
    }
    return [{"name": name, "digest": {"sha256": digests[name]}} for name in sorted(digests)]


def _external(made: Finished) -> dict[str, Any]:
    manifest, lock = made.manifest, made.lock
    allowed = Rules.allowing(risk for model in lock.models for risk in model.risks)
    return {
        "name": manifest.name,
        "target": to_data(manifest.target),
        "stack": manifest.stack,
        "flavour": manifest.flavour,
        "models": [_named(model) for model in lock.models],
        "adapters": [_named(adapter) for adapter in lock.adapters],
        "thinking": manifest.thinking,
        "options": {
            "channel": public_url(lock.channel),
            "built": sorted(build.name for build in lock.builds),
            "allowPickle": allowed.pickle,
            "allowRemoteCode": allowed.remote_code,
            "overlay": manifest.overlay is not None,
            "modelOnly": manifest.model_only,
            "delta": manifest.delta is not None,
            "volumes": sum(1 for name in made.listed if medium.archive_of(name)),
            "parity": any(map(is_spare, made.listed)),
        },
    }


def _named(part: Model | Adapter) -> dict[str, str]:
    return {"name": part.name, "source": part.source}


def _internal(made: Finished) -> dict[str, Any]:
    manifest = made.manifest
    server = canonical.dumps(to_data(manifest.server))
    return {
        "commands": commands(made),
        "format": manifest.schema,
        "lockSha256": manifest.lock_sha256,
        "sequence": manifest.sequence,
        "stackSha256": bundle.digest_of(server),
    }


def commands(made: Finished) -> list[list[str]]:
    """What makes the same manifest again, word by word, beside the bundle's folder."""
    manifest, lock = made.manifest, made.lock
    target, first = lock.target, lock.model
    allowed = Rules.allowing(risk for model in lock.models for risk in model.risks)
    words = ["bundle", "create", "--lock", LOCK_MEMBER, "--name", manifest.name]
    words += ["--stack", manifest.stack, "--gpu", ",".join(target.gpus)]
    words += ["--python", target.python, "--glibc", target.glibc]
    words += ["--driver", target.driver] if target.driver else []
    for model in (first, *lock.others):
        words += ["--model", _place(model)]
    for adapter in lock.adapters:
        words += ["--lora", f"{_place(adapter)}={adapter.name}"]
    words += [
        "--channel",
        public_url(lock.channel),
        "--thinking",
        "on" if manifest.thinking else "off",
    ]
    words += ["--with-flash-attn"] if lock.builds else []
    words += ["--allow-pickle"] if allowed.pickle else []
    words += ["--allow-remote-code"] if allowed.remote_code else []
    for path, _ in caches_of(manifest):
        words += ["--caches", path.rpartition("/")[2]]
    words += ["--overlay", "inventory.json"] if manifest.overlay is not None else []
    words += ["--model-only", "--for", "INSTALLED"] if manifest.model_only else []
    words += ["--base", manifest.delta.base] if manifest.delta is not None else []
    return [["bundle", "inspect", made.name, "--raw", "lock"], words]


def _place(part: Model | Adapter) -> str:
    kind, _, name = part.source.partition(":")
    return f"{name}@{part.revision}" if kind == "hf" else f"./{name}"


def _byproducts(manifest: Manifest) -> list[Descriptor]:
    """The lock, and the papers that the bundle carries about itself."""
    return [
        {"name": one.path, "digest": {"sha256": one.sha256}}
        for one in sorted(manifest.members, key=lambda member: member.path)
        if one.path == LOCK_MEMBER or one.path.startswith(_PAPERS)
    ]


def builder_of(manifest: Manifest) -> str:
    """What stands for the builder where nobody is named: the program and its version."""
    return f"{_BUILDER}{manifest.tool.rpartition(' ')[2]}"


def is_builder(text: object) -> bool:
    """Whether a builder's id is a URI (RFC 3986) that may be published: no blanks, no password."""
    if not isinstance(text, str) or not _URI.fullmatch(text):
        return False
    rest = text.partition(":")[2]
    return "@" not in rest.removeprefix("//").partition("/")[0] or not rest.startswith("//")
