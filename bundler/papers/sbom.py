"""The bill as a CycloneDX 1.6 document (https://cyclonedx.org/docs/1.6/json/).

One text for one bill: sorted whatever the library's order is, without a clock, and with a serial
number that follows from the content. Compile caches are no part of a bill; the document says so,
and where their digests are, for their files hold code that runs. The only module that knows
cyclonedx-python-lib.
"""

import hashlib
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import (
    AttachedText,
    ExternalReference,
    ExternalReferenceType,
    HashAlgorithm,
    HashType,
    Property,
    XsUri,
)
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import (
    Component,
    ComponentType,
    Diff,
    Patch,
    PatchClassification,
    Pedigree,
)
from cyclonedx.model.license import DisjunctiveLicense, License, LicenseAcknowledgement
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from bundler.papers import bill as bills
from bundler.papers import gathering_purls
from bundler.papers.bill import Bill
from manifests import caches
from manifests.lock import Derived, ModelFile

#: Its path in the archive, and in an installed release.
MEMBER = "papers/sbom.cdx.json"
_TYPES = {
    bills.WHEEL: ComponentType.LIBRARY,
    bills.CONDA: ComponentType.LIBRARY,
    bills.MODEL: ComponentType.MACHINE_LEARNING_MODEL,
    bills.ADAPTER: ComponentType.MACHINE_LEARNING_MODEL,
    bills.CODE: ComponentType.APPLICATION,
}
_NOT_HELD = (
    "compile caches, compiled code from a rehearsal (bundle create --caches): where the bundle "
    f"carries any, its bundle.json lists them below {caches.FOLDER} with their digests"
)
_DECLARED = LicenseAcknowledgement.DECLARED
_LISTING = "canonical JSON of [[path, bytes, sha256], …]"
#: What a component's digest is of, where it is not a file's.
_DIGEST_OF = {bills.MODEL: _LISTING, bills.ADAPTER: _LISTING, bills.CODE: _LISTING}


def render(bill: Bill) -> bytes:
    """The document's bytes."""
    outputter = make_outputter(_bom(bill), OutputFormat.JSON, SchemaVersion.V1_6)
    document = _sorted(json.loads(outputter.output_as_string()))
    del document["serialNumber"]  # the library's is random
    digest = hashlib.sha256(_text(document)).hexdigest()
    number = uuid.uuid5(uuid.NAMESPACE_URL, f"sha256:{digest}")
    return _text({**document, "serialNumber": f"urn:uuid:{number}"})


def _text(document: dict[str, Any]) -> bytes:
    return f"{json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False)}\n".encode()


def _sorted(value: Any) -> Any:
    """Lists in an order of their own: none of ours means anything by its order."""
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(map(_sorted, value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def _bom(bill: Bill) -> Bom:
    found = {one.ref: _component(one) for one in bill.components}
    code = next((one for one in bill.components if one.kind == bills.CODE), None)
    tool = Component(
        type=ComponentType.APPLICATION,
        name="vllm-bundle",
        version=code.version if code is not None else None,
    )
    whole = Component(
        bom_ref="bundle",
        type=ComponentType.APPLICATION,
        name=bill.name,
        version=bill.lock_sha256,
        description="a vLLM server, its environment and its models, for a host without a network",
        properties=_properties(
            lock_sha256=bill.lock_sha256,
            stack=bill.stack,
            gpus=" ".join(bill.target.gpus),
            glibc=bill.target.glibc,
            python=bill.target.python,
            arch=bill.target.arch,
            driver=bill.target.driver,
            not_held=_NOT_HELD,
        ),
    )
    bom = Bom(
        components=found.values(),
        metadata=BomMetaData(
            tools=ToolRepository(components=[tool]),
            component=whole,
            timestamp=datetime.fromtimestamp(bill.created, UTC),
        ),
    )
    bom.register_dependency(whole, [found[ref] for ref in sorted(_top(bill))])
    for one in bill.components:
        bom.register_dependency(found[one.ref], [found[ref] for ref in one.requires])
    return bom


def _top(bill: Bill) -> set[str]:
    """What nobody else needs; of a circle that nobody needs, the first."""
    requires = {one.ref: one.requires for one in bill.components}
    needed = {ref for refs in requires.values() for ref in refs}
    reached: set[str] = set()

    def reach(start: str) -> None:
        waiting = [start]
        while waiting:
            if (ref := waiting.pop()) not in reached:
                reached.add(ref)
                waiting += requires[ref]

    top = set()
    for ref in (*sorted(requires.keys() - needed), *sorted(requires)):
        if ref not in reached:
            top.add(ref)
            reach(ref)
    return top


def _component(one: bills.Component) -> Component:
    return Component(
        bom_ref=one.ref,
        type=_TYPES[one.kind],
        name=one.name,
        version=one.version,
        purl=PackageURL.from_string(one.purl),
        hashes=_hashes(one.sha256),
        licenses=_licences(one),
        external_references=_references(one.url),
        pedigree=_pedigree(one),
        components=[_file(one.ref, file) for file in one.files],
        properties=[
            *_properties(
                scope=one.scope,
                kind=one.kind,
                filename=one.filename,
                size=str(one.size or ""),
                digest=one.digest_from,
                digest_of="RECORD" if one.scope == bills.PROVIDED else _DIGEST_OF.get(one.kind, ""),
                licence_family=one.licence.family,
                base_model=one.base,
                commit=one.version if one.kind in (bills.MODEL, bills.ADAPTER) else "",
            ),
            *_built(one),
            *(_property("licence_text", f"{text.sha256} {text.path}") for text in one.texts),
        ],
    )


def _file(ref: str, file: ModelFile) -> Component:
    return Component(
        bom_ref=f"{ref}/{file.path}",
        type=ComponentType.FILE,
        name=file.path,
        hashes=_hashes(file.sha256),
        properties=_properties(
            size=str(file.size), digest=file.digest_from, git_blob=file.git_blob
        ),
    )


def _built(one: bills.Component) -> list[Property]:
    """What a compiled wheel was compiled for, and with what."""
    build = one.build
    if build is None:
        return []
    tools = sorted({f"{w.name}=={w.version}" for w in (*build.environment, *build.toolkit)})
    return [
        *_properties(
            built_for=" ".join(f"sm_{arch}" for arch in build.archs),
            built_with_torch=build.torch,
            built_with_cuda=build.cuda,
        ),
        *(_property("built_with", tool) for tool in tools),
    ]


def _licences(one: bills.Component) -> list[License]:
    """An SPDX identifier or expression; else the words, and where they are long a name for them."""
    if not one.declared:
        return []
    stated = LicenseFactory().make_from_string(one.declared, license_acknowledgement=_DECLARED)
    if not isinstance(stated, DisjunctiveLicense) or stated.id is not None:
        return [stated]
    name = one.licence.text or one.declared
    text = AttachedText(content=one.declared) if " ".join(one.declared.split()) != name else None
    return [DisjunctiveLicense(name=name, text=text, acknowledgement=_DECLARED)]


def _pedigree(one: bills.Component) -> Pedigree | None:
    if one.derived is not None:
        return Pedigree(
            ancestors=[_origin(one, one.derived)],
            patches=list(_patches(one)),
            notes="\n".join(one.derived.changes) or None,
        )
    names = [name for name in one.base.split(", ") if name]
    return Pedigree(ancestors=[_base(one, name) for name in names]) if names else None


def _origin(one: bills.Component, derived: Derived) -> Component:
    version = one.build.version if one.build is not None else derived.origin.split("-")[1]
    purl = gathering_purls.wheel(one.name, version, derived.origin, derived.sha256)
    return Component(
        bom_ref=f"{one.ref}#origin",
        name=one.name,
        version=version,
        purl=PackageURL.from_string(purl),
        hashes=_hashes(derived.sha256),
        external_references=_references(derived.url),
        properties=_properties(
            filename=derived.origin, size=str(derived.size or ""), digest=derived.digest_from
        ),
    )


def _base(one: bills.Component, name: str) -> Component:
    published = "/" in name
    return Component(
        bom_ref=f"{one.ref}#base/{name}",
        type=ComponentType.MACHINE_LEARNING_MODEL,
        name=name,
        purl=PackageURL.from_string(gathering_purls.model(f"hf:{name}", "")) if published else None,
    )


def _patches(one: bills.Component) -> Iterator[Patch]:
    for patch in one.build.patches if one.build is not None else ():
        old = "".join(f"-{line}\n" for line in patch.old.splitlines())
        new = "".join(f"+{line}\n" for line in patch.new.splitlines())
        text = f"--- a/{patch.path}\n+++ b/{patch.path}\n@@ everywhere @@\n{old}{new}"
        diff = Diff(text=AttachedText(content=text))
        yield Patch(type=PatchClassification.UNOFFICIAL, diff=diff)


def _hashes(sha256: str) -> list[HashType]:
    return [HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else []


def _references(url: str) -> list[ExternalReference]:
    if not url.startswith(("https://", "http://")):
        return []
    return [ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(url))]


def _properties(**values: str) -> list[Property]:
    return [_property(name, value) for name, value in values.items() if value]


def _property(name: str, value: str) -> Property:
    return Property(name=f"vllm-bundle:{name.replace('_', '-')}", value=value)
