"""What files of models would run when they are loaded. Nothing here loads one."""

import dataclasses
import io
import logging
import os
import pickle
import shutil
import tempfile
import zipfile
import zlib
from collections import OrderedDict

import pytest

from bundlectl import cli
from bundler import inspecting
from bundler.papers import pickles
from bundler.papers.pickles_judge import judge, may_run
from manifests.errors import IntegrityError
from manifests.risks import Risk
from tests.support import deltas
from tests.support.locked import Locked, a_lock


class Runs:
    """Whose pickle runs a command."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def harmless(protocol=2):
    return pickle.dumps(OrderedDict(weight=[1, 2, 3]), protocol)


def hostile(protocol=2):
    return pickle.dumps(OrderedDict(weight=Runs(os.system, "true")), protocol)


def torch_file(data, **more):
    """A checkpoint as torch.save writes it: a zip with a pickle in it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/version", "3\n")
        for name, content in more.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def opened(data):
    handle = tempfile.TemporaryFile()  # noqa: SIM115 - the test's end closes it
    handle.write(data)
    handle.seek(0)
    return handle


def judged(data, name="m/pytorch_model.bin", allowed=False):
    with opened(data) as handle:
        found = judge(handle, name, allowed)
    return found.level, found.why, found.summary


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("name", ["m/x.pkl", "m/x.bin", "m/x.pt", "m/x.data", "m/unknown"])
@pytest.mark.parametrize("allowed", [False, True])
def test_a_pickle_that_runs_a_command(protocol, name, allowed):
    assert judged(hostile(protocol), name, allowed) == ("critical", "runs", "posix.system")


@pytest.mark.parametrize("allowed", [False, True])
def test_a_checkpoint_that_runs_a_command(allowed):
    found = judged(torch_file(hostile()), allowed=allowed)
    assert found == ("critical", "runs", "posix.system")


def test_harmless_ones():
    """One that was allowed is what its owner knows; one that was not is told."""
    for data in (harmless(), torch_file(harmless())):
        assert judged(data, allowed=True) == ("", "", "")
        assert judged(data) == ("high", "unallowed", "")


def test_what_is_not_known_to_be_harmless():
    data = pickle.dumps(Runs(os.path.join, "a"), 2)
    assert judged(data) == ("high", "unknown", "posixpath.join")
    assert judged(data, allowed=True)[0] == "medium"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        b"not a pickle at all",
        harmless()[:-4],
        torch_file(harmless())[:-60],
        torch_file(b"\x80\x02garbage"),
        os.urandom(64) + b"\xff" * 64,
        b"7z\xbc\xaf\x27\x1c" + bytes(64),
    ],
)
def test_one_that_can_not_be_judged_is_told(data):
    level, why, summary = judged(data)
    assert (level, why) in {("high", "unjudged"), ("high", "unallowed")}
    assert summary or why == "unallowed"


def test_a_member_that_can_not_be_read_is_told():
    """picklescan passes over it, though the rest of the file is harmless."""
    data = bytearray(torch_file(harmless(), other=harmless()))
    data[data.rindex(b"PK\x01\x02") + 10] = 99  # a method of compression that nobody has
    assert judged(bytes(data), allowed=True)[:2] == ("high", "unjudged")


@pytest.mark.parametrize("word", ["", " FOUND", "Invalid PyTorch magic number", "x: y import '"])
def test_a_name_does_not_silence_what_can_not_be_judged(word):
    hidden = zlib.compress(hostile())
    assert judged(hidden, f"m/vec{word}.pkl", allowed=True)[:2] == ("high", "unjudged")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"x{word}/data.pkl", b"\x80\x02garbage")
    assert judged(buffer.getvalue(), allowed=True)[:2] == ("high", "unjudged")


def test_a_library_that_speaks_is_not_heard_elsewhere(caplog):
    with caplog.at_level(logging.DEBUG):
        judged(hostile())
    assert not caplog.records


@pytest.mark.parametrize(
    ("path", "data", "expected"),
    [
        ("model.safetensors", hostile(), False),  # `create` has read its header
        ("config.json", hostile(), False),
        ("merges.txt", hostile(), False),
        ("README.md", "# Text, 中文".encode(), False),
        ("README.md", ("中" * 40_000).encode(), False),  # a letter is cut in two
        ("chat_template.jinja", b"{{ x }}", False),
        ("modelling.py", b"import os\n", False),
        ("README.md", hostile(), True),  # whatever it is called
        ("weights", torch_file(harmless()), True),
        ("pytorch_model.bin", b"text", True),
        ("Model.PT", b"text", True),
        ("x.joblib", b"text", True),
        ("tokenizer.model", b"\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00", True),
        ("model.gguf", b"GGUF\x03\x00\x00\x00", True),
    ],
)
def test_which_files_may_run_something(path, data, expected):
    with opened(data) as handle:
        assert may_run(path, handle) is expected
        assert handle.tell() == 0


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("m/tokenizer.model", b"\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00"),
        ("m/model.gguf", b"GGUF\x03\x00\x00\x00" + bytes(100)),
        ("m/picture.png", b"\x89PNG\r\n\x1a\n" + bytes(100)),
    ],
)
def test_what_no_loader_takes_for_a_pickle(name, data):
    assert judged(data, name) == ("", "", "")


# Where they lie


MODEL = {
    "config.json": b"{}",
    "README.md": b"# tiny",
    "model.safetensors": bytes(64),
    "sub/pytorch_model.bin": torch_file(hostile()),
    "training_args.bin": torch_file(harmless()),
    "optimizer.pt": torch_file(harmless()),
}


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    """A bundle on its medium, in which one of three pickles was allowed."""
    made = Locked(model=MODEL)
    plain = made.manifest()
    allowed = (Risk("pickle", "optimizer.pt"),)
    manifest = dataclasses.replace(plain, model=dataclasses.replace(plain.model, risks=allowed))
    return made.write(tmp_path_factory.mktemp("media"), manifest)


@pytest.fixture
def prefix(media, tmp_path):
    folder, digest = media
    host = tmp_path / "host"
    words = ["install", "--no-start", "--ignore", "port", "--ignore", "glibc"]
    words += ["--media", str(folder), "--manifest", digest, "--prefix", str(host), "--quiet"]
    assert cli.main(words) == 0
    return host


def found_in(place):
    return pickles.scan(inspecting.find_or_lock(place))


def test_a_bundle_and_its_installation(media, prefix):
    found = found_in(media[0])
    assert found.files == (
        "tiny/optimizer.pt",
        "tiny/sub/pytorch_model.bin",
        "tiny/training_args.bin",
    )
    assert [(one.id, one.level) for one in found.findings] == [
        ("pickle:tiny/sub/pytorch_model.bin", "critical"),
        ("pickle:tiny/training_args.bin", "high"),
    ]
    assert found_in(prefix) == found


def test_volumes(tmp_path):
    folder, _ = Locked(model=MODEL).write(tmp_path / "media", volume_size=6144)
    assert len(list(folder.glob("*.tar.*"))) > 1
    assert len(found_in(folder).findings) == 3


def test_code_and_what_can_not_be_read_are_not_called_scanned(tmp_path):
    """Taken with --allow-remote-code: nothing here judges it, so it is told."""
    model = {
        "config.json": b"{}",
        "modeling_x.py": b"import os\n",
        "lib/libx.so": b"\x7fELF\0\0\0",
        "model.h5": b"\x89HDF\r\n\x1a\n\0",
    }
    made = Locked(model=model)
    plain = made.manifest()
    risks = (Risk("remote-code", "modeling_x.py"), Risk("auto-map", "config.json"))
    manifest = dataclasses.replace(plain, model=dataclasses.replace(plain.model, risks=risks))
    folder, _ = made.write(tmp_path, manifest)
    found = found_in(folder)
    assert (found.files, found.findings) == ((), ())
    assert [(one.kind, one.name) for one in found.unseen] == [
        ("remote", "tiny/config.json"),
        ("remote", "tiny/lib/libx.so"),
        ("remote", "tiny/modeling_x.py"),
        ("unread", "tiny/model.h5"),
    ]
    bad = Locked(model={"a.bin": b"\x80\x02garbage", "b.py": hostile()})
    found = found_in(bad.write(tmp_path / "bad")[0])
    assert found.files == ("tiny/b.py",)
    assert [one.why for one in found.findings] == ["unjudged", "runs"]


def test_what_a_delta_leaves_to_its_base_is_told(tmp_path):
    newer = Locked(model={**MODEL, "optimizer.pt": torch_file(harmless(4))})
    folder, _ = deltas.write(newer, Locked(model=MODEL), tmp_path)
    found = found_in(folder)
    assert found.files == ("tiny/optimizer.pt",)
    assert [(one.kind, one.name) for one in found.unseen] == [("base", "tiny")]


def test_altered_bytes_are_not_believed(media, prefix, tmp_path):
    (weights,) = prefix.glob("models/*/training_args.bin")
    weights.chmod(0o644)
    weights.write_bytes(torch_file(harmless(4)))
    with pytest.raises(IntegrityError, match=r"training_args\.bin"):
        found_in(prefix)
    weights.unlink()
    with pytest.raises(IntegrityError, match="no such file"):
        found_in(prefix)
    copy = shutil.copytree(media[0], tmp_path / media[0].name)
    archive = copy / f"{copy.name}.tar"
    data = bytearray(archive.read_bytes())
    data[data.rindex(b"archive/data.pkl") - 40] ^= 1
    archive.write_bytes(data)
    with pytest.raises(IntegrityError):
        found_in(copy)


def test_a_lock_has_no_bytes(tmp_path):
    path = tmp_path / "bundle.lock"
    path.write_bytes(a_lock().dump())
    found = found_in(path)
    assert (found.files, found.findings, found.missing) == ((), (), "lock")
