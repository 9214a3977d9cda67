"""A bill with one component of each kind that papers have to tell apart."""

import dataclasses
import hashlib
from typing import Any

from bundler.papers import gathering_purls as purls
from bundler.papers.bill import (
    ADAPTER,
    CODE,
    CONDA,
    ENVIRONMENT,
    MODEL,
    MODELS,
    RUNTIME,
    WHEEL,
    Bill,
    Component,
    Text,
)
from bundler.plan import licences
from manifests.lock import (
    COMPUTED,
    PUBLISHED,
    Build,
    CondaPackage,
    Derived,
    ModelFile,
    Patch,
    Target,
    Wheel,
)

MIT = (
    "MIT License\n\nCopyright (c) 2026 The authors\n\n"
    "Permission is hereby granted, free of charge, to any person obtaining a copy …\n"
)
GPL = "GNU GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007\n"
GCC_EXCEPTION = "GCC RUNTIME LIBRARY EXCEPTION\n\nVersion 3.1, 31 March 2009\n"
EULA = (
    "NVIDIA Software License Agreement\n\nIMPORTANT NOTICE: PLEASE READ AND AGREE BEFORE USING "
    "THE SOFTWARE. This license agreement is between you and NVIDIA Corporation.\n"
)
PROSE = (
    "This package may be used by everybody who is kind to its authors & their <friends>; whoever "
    "sells it has to ask first. See the file COPYING for what we mean by kind."
)
CREATED = 1764547200  # 2025-12-01T00:00:00Z
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def digest(text: str) -> str:
    """A digest that differs for each text."""
    return hashlib.sha256(text.encode()).hexdigest()


def text(path: str, content: str) -> Text:
    return Text(path, digest(content), content)


def wheel(name: str, version: str = "1.0", scope: str = ENVIRONMENT, **changes: Any) -> Component:
    """A wheel of an index; `declared` decides its licence unless that is given."""
    filename = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    sha256 = digest(f"{scope} {filename}")
    plain = Component(
        ref=f"{scope}/{WHEEL}/{name}@{version}",
        kind=WHEEL,
        scope=scope,
        name=name,
        version=version,
        purl=purls.wheel(name, version, filename, sha256),
        sha256=sha256,
        filename=filename,
        size=1000,
        url=f"https://files.example/{filename}",
    )
    return _licensed(plain, changes)


def conda(name: str, version: str = "1.0", scope: str = ENVIRONMENT, **changes: Any) -> Component:
    """A conda package of conda-forge."""
    filename = f"{name}-{version}-h0_0.conda"
    url = f"https://conda.anaconda.org/conda-forge/linux-64/{filename}"
    package = CondaPackage(name, version, "h0_0", "linux-64", url, digest(filename), 2000)
    plain = Component(
        ref=f"{scope}/{CONDA}/{name}@{version}",
        kind=CONDA,
        scope=scope,
        name=name,
        version=version,
        purl=purls.conda(package),
        sha256=package.sha256,
        filename=filename,
        size=package.size,
        url=url,
    )
    return _licensed(plain, changes)


def _licensed(plain: Component, changes: dict[str, Any]) -> Component:
    made = dataclasses.replace(plain, **changes)
    if "licence" in changes:
        return made
    return dataclasses.replace(made, licence=licences.of_text(made.declared))


def flash_attn() -> Component:
    """A wheel that was compiled from its patched source."""
    source = "flash_attn-2.8.3.tar.gz"
    url = f"https://files.example/{source}"
    torch = Wheel(
        "torch",
        "2.13.0",
        "torch-2.13.0-cp312-cp312-manylinux_2_28_x86_64.whl",
        "https://files.example/torch-2.13.0-cp312-cp312-manylinux_2_28_x86_64.whl",
        digest("torch"),
    )
    patch = Patch("setup.py", "old", "new", "names the architectures", digest("setup.py"))
    build = Build(
        name="flash-attn",
        version="2.8.3",
        label="cu128.torch2.13.sm80",
        filename=source,
        url=url,
        sha256=digest(source),
        archs=("80",),
        units=72,
        torch="2.13.0",
        cuda="12.8",
        environment=(torch,),
        patches=(patch,),
        size=8_000_000,
    )
    version = f"{build.version}+{build.label}"
    changes = ("compiled for sm_80", "setup.py: names the architectures")
    return wheel(
        "flash-attn",
        version,
        url="derived:flash_attn-2.8.3+cu128.torch2.13.sm80-cp312-cp312-linux_x86_64.whl",
        filename=f"flash_attn-{version}-cp312-cp312-linux_x86_64.whl",
        purl=purls.wheel("flash-attn", version),
        digest_from=COMPUTED,
        size=250_000_000,
        derived=Derived(source, url, build.sha256, PUBLISHED, changes, build.size),
        build=build,
        declared="BSD License",
        texts=(text("licenses/LICENSE", "BSD 3-Clause License\n\nRedistribution and use …\n"),),
        requires=("environment/wheel/torch@2.13.0",),
    )


def model(name: str = "Qwen3.5-9B", **changes: Any) -> Component:
    """A model of the Hub."""
    source = f"hf:Qwen/{name}"
    files = (
        ModelFile("LICENSE", 11_000, digest("LICENSE")),
        ModelFile("README.md", 5_000, digest("README.md")),
        ModelFile("config.json", 700, digest("config.json"), git_blob="a" * 40),
        ModelFile("model-00001-of-00001.safetensors", 18_000_000_000, digest("weights")),
    )
    plain = Component(
        ref=f"{MODELS}/{MODEL}/{name}@{COMMIT}",
        kind=MODEL,
        scope=MODELS,
        name=name,
        version=COMMIT,
        purl=purls.model(source, COMMIT),
        sha256=digest(f"listing of {name}"),
        size=sum(file.size for file in files),
        url=f"https://huggingface.co/Qwen/{name}/tree/{COMMIT}",
        files=files,
        declared="apache-2.0",
        base=f"Qwen/{name}-Base",
        texts=(text("LICENSE", "Apache License\nVersion 2.0, January 2004\n"),),
    )
    return _licensed(plain, changes)


def adapter() -> Component:
    """An adapter out of a folder, whose licence nobody states."""
    files = (
        ModelFile("adapter_config.json", 500, digest("adapter_config"), digest_from=COMPUTED),
        ModelFile("adapter_model.safetensors", 40_000, digest("adapter"), digest_from=COMPUTED),
    )
    revision = digest("folder")
    return Component(
        ref=f"{MODELS}/{ADAPTER}/style@{revision}",
        kind=ADAPTER,
        scope=MODELS,
        name="style",
        version=revision,
        purl=purls.model("folder:style", revision),
        sha256=digest("listing of style"),
        size=40_500,
        digest_from=COMPUTED,
        files=files,
        base="Qwen/Qwen3.5-9B",
        requires=(model().ref,),
    )


def components() -> tuple[Component, ...]:
    """One of each kind, sorted."""
    repaired = Derived(
        "numba-0.64.0-cp312-cp312-manylinux_2_28_x86_64.whl",
        "https://files.example/numba-0.64.0-cp312-cp312-manylinux_2_28_x86_64.whl",
        digest("numba"),
        PUBLISHED,
        ("requires numpy<2.5 instead of numpy<2.4",),
        3_000_000,
    )
    code = Component(
        ref=f"{RUNTIME}/{CODE}/vllm-bundle@0.1.0",
        kind=CODE,
        scope=RUNTIME,
        name="vllm-bundle",
        version="0.1.0",
        purl=purls.code("vllm-bundle", "0.1.0"),
        sha256=digest("listing of the code"),
        size=900_000,
        declared="Apache-2.0",
        requires=("runtime/conda/python@3.12.9", "runtime/wheel/zstandard@0.25.0"),
    )
    code = _licensed(code, {})
    found = (
        wheel(  # a plain one
            "torch",
            "2.13.0",
            declared="BSD-3-Clause",
            requires=("environment/wheel/nvidia-cublas-cu12@12.8.4.1",),
            texts=(text("licenses/LICENSE", "Redistribution and use in source and binary …\n"),),
        ),
        wheel("unstated"),  # no licence
        wheel("prosaic", declared=PROSE, texts=(text("licenses/COPYING", PROSE),)),
        wheel("zstandard", "0.25.0", declared="BSD-3-Clause"),  # twice: here, and in the runtime
        wheel("zstandard", "0.25.0", RUNTIME, declared="BSD-3-Clause"),
        wheel(
            "numba",
            "0.64.0+repaired",
            url="derived:numba-0.64.0+repaired-cp312-cp312-manylinux_2_28_x86_64.whl",
            digest_from=COMPUTED,
            derived=repaired,
            declared="BSD License",
        ),
        flash_attn(),
        wheel(
            "nvidia-cublas-cu12",
            "12.8.4.1",
            declared="NVIDIA Proprietary Software",
            texts=(text("licenses/License.txt", EULA),),
            size=594_000_000,
        ),
        wheel("mit", declared="MIT", texts=(text("licenses/LICENSE", MIT),)),
        conda("python", "3.12.9", declared="Python-2.0", requires=("environment/conda/zlib@1.3",)),
        conda("python", "3.12.9", RUNTIME, declared="Python-2.0"),
        conda("zlib", "1.3", declared="Zlib"),
        conda(
            "libstdcxx",
            "15.2.0",
            declared="GPL-3.0-only WITH GCC-exception-3.1",
            texts=(
                text("licenses/gcc/COPYING3", GPL),
                text("licenses/gcc/COPYING.RUNTIME", GCC_EXCEPTION),
            ),
        ),
        model(),
        adapter(),
        code,
    )
    return tuple(sorted(found, key=lambda one: one.ref))


def bill(**changes: Any) -> Bill:
    """All of them as one bundle's; `changes` are of the bill."""
    plain = Bill(
        name="qwen3.5-9b+vllm-0.19.1-cu128+sm_80",
        lock_sha256=digest("lock"),
        created=CREATED,
        stack="vllm-0.19.1-cu128",
        target=Target(("sm_80",), "2.28", "3.12", driver="570.86"),
        components=components(),
    )
    return dataclasses.replace(plain, **changes)
