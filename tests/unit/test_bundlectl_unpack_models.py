"""Several models and adapters, unpacked in one pass: each to its folder, each kept or continued."""

import dataclasses

import pytest

from bundlectl import unpack
from manifests import bundle, members
from manifests.audit.installation import areas, audit_area
from manifests.reader import BundleReader
from tests.support.simulator import Simulator

OTHER = bundle.ServedModel("other", "folder:other", "b" * 40)
STYLE = bundle.ServedAdapter("style", "folder:style", "c" * 40, "tiny", 8)
MORE = {
    "models/other/config.json": b'{"other": true}',
    "models/other/deep/er/weights": bytes(70_000),
    "adapters/style/adapter_model.safetensors": b"adapter",
}


@dataclasses.dataclass
class Several(Simulator):
    """A bundle of two models and an adapter; `alone` leaves the environment away."""

    alone: bool = False

    def contents(self):
        contents = {**super().contents(), **MORE}
        if self.alone:
            del contents[bundle.ENVIRONMENT_MEMBER]
        return contents

    def manifest(self):
        plain = super().manifest()
        roles = tuple(dataclasses.replace(m, role=members.role_of(m.path)) for m in plain.members)
        return dataclasses.replace(
            plain,
            members=roles,
            others=(OTHER,),
            adapters=(STYLE,),
            environment=() if self.alone else plain.environment,
        )


class CutOff(Exception):
    """Stands for a kill."""


@pytest.fixture
def prefix(tmp_path):
    for name in ("releases", "models", "state/journal"):
        (tmp_path / "host" / name).mkdir(parents=True)
    return tmp_path / "host"


def run(folder, digest, prefix, keep=(), progress=lambda count: None):
    with (folder / f"{folder.name}.tar").open("rb", buffering=0) as raw:
        reader = BundleReader(raw, digest)
        unpack.Unpacker(prefix, reader, progress).run(keep)
    return reader.manifest


def findings(prefix, manifest, digest):
    return [
        str(finding)
        for area in areas(manifest, digest, str(prefix))
        for finding in audit_area(prefix, area)
    ]


@pytest.mark.parametrize("alone", [False, True])
def test_each_part_gets_its_folder(tmp_path, prefix, alone):
    folder, digest = Several(alone=alone).write(tmp_path / "media")
    manifest = run(folder, digest, prefix)
    assert findings(prefix, manifest, digest) == []
    assert sorted(path.name for path in (prefix / "models").iterdir()) == [
        "other@bbbbbbbbbbbb",
        "style@cccccccccccc",
        "tiny@000000000000",
    ]
    assert (prefix / "models/other@bbbbbbbbbbbb/deep/er/weights").read_bytes() == bytes(70_000)
    (release,) = (prefix / "releases").iterdir()
    assert (release / "env").exists() is not alone
    assert manifest.model_only is alone


def test_what_was_intact_is_kept(tmp_path, prefix):
    folder, digest = Several().write(tmp_path / "media")
    manifest = run(folder, digest, prefix)
    kept = prefix / "models/other@bbbbbbbbbbbb"
    number = (kept / "config.json").stat().st_ino
    (prefix / "models/style@cccccccccccc/adapter_model.safetensors").write_bytes(b"wrong!!")
    (release,) = (prefix / "releases").iterdir()
    (release / "bundle.lock").unlink()
    run(folder, digest, prefix, keep={manifest.model_folder(), f"models/{kept.name}"})
    assert findings(prefix, manifest, digest) == []
    assert (kept / "config.json").stat().st_ino == number


def test_a_run_cut_off_after_any_member_continues(tmp_path, prefix):
    folder, digest = Several().write(tmp_path / "media")
    total = len(Several().manifest().members)
    cut_off = 0
    for _ in range(200):
        left = [1 + cut_off // 3]

        def kill(count, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise CutOff

        try:
            manifest = run(folder, digest, prefix, progress=kill)
            break
        except CutOff:
            cut_off += 1
            finals = [p.name for p in (prefix / "models").iterdir() if p.suffix != ".partial"]
            assert finals == []
    assert cut_off > total
    assert findings(prefix, manifest, digest) == []
    assert not list(prefix.glob("*/*.partial"))
