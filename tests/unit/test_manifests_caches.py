import io
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests import caches
from manifests.bundle import digest_of
from manifests.caches import Caches, File, Key
from manifests.errors import IntegrityError
from tests.support.simulator import Simulator

KEY = Key("NVIDIA H200", "9.0", "2.35", "vllm", "e" * 64, "c" * 64, ("--max-num-seqs 8",))
PLACE = "/opt/vllm-bundle/cache"


def header(*files):
    return Caches(caches.SCHEMA, KEY, PLACE, files)


def file(path, data=b"x"):
    return File(path, len(data), digest_of(data))


@given(st.binary(max_size=200))
def test_whatever_is_no_header_is_refused(data):
    with pytest.raises(IntegrityError):
        caches.read(io.BytesIO(data), "x")


def test_a_header_is_read_back_and_the_stream_stands_at_the_first_file():
    written = header(file("torch/inductor/a"), file("triton/K/k.cubin"))
    stream = io.BytesIO(written.dump() + b"xx")
    assert caches.read(stream, "x") == written
    assert stream.read() == b"xx"


@pytest.mark.parametrize(
    "files",
    [
        (file("home/.bashrc"),),
        (file("triton"),),
        (file("triton/../../etc/passwd"),),
        (file("/triton/a"),),
        (file("triton/b"), file("triton/a")),
        (file("triton/a"), file("triton/a")),
        (file("triton/K/lock"),),
        (file("triton/a"), file("triton/a.b"), file("triton/a/c")),
        (File("triton/a", 1 << 40, "0" * 64),),
        (File("triton/a", -1, "0" * 64),),
        (File("triton/a", 1, "nothing"),),
    ],
)
def test_a_header_names_only_files_of_a_cache_each_once(files):
    with pytest.raises(IntegrityError):
        caches.read(io.BytesIO(header(*files).dump()), "x")


def test_a_later_format_is_refused():
    with pytest.raises(IntegrityError, match="format 2"):
        caches.read(io.BytesIO(replace(header(), schema=2).dump()), "x")


@pytest.mark.parametrize("place", ["/srv/c", '/srv/"c\\', "/srv/Modèle", PLACE])
def test_paths_in_groups_of_triton_follow_the_cache(place):
    group = {"child_paths": {"k.cubin": f"{place}/triton/K/k.cubin"}}
    made, data = caches.give("triton/K/__grp__k.json", json.dumps(group).encode(), place)
    assert made.marked
    assert b"srv" not in data
    for other in ("/opt/cache", '/opt/"x'):
        found = json.loads(caches.take(io.BytesIO(data), made, other))
        assert found == {"child_paths": {"k.cubin": f"{other}/triton/K/k.cubin"}}


def test_the_same_path_in_a_pickle_stays():
    made, data = caches.give("vllm/torch_compile_cache/a/model", PLACE.encode(), PLACE)
    assert not made.marked
    assert data == PLACE.encode()


def test_other_bytes_than_the_headers_are_refused():
    with pytest.raises(IntegrityError, match="triton/a"):
        caches.take(io.BytesIO(b"y"), file("triton/a"), PLACE)


def test_graphs_fit_only_below_the_path_where_they_were_made():
    files = file("torch/inductor/a"), file("triton/a"), file("vllm/modelinfos/a")
    assert header(*files).usable(PLACE) == files
    assert header(*files).usable("/srv/cache") == files[1:]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("triton/K/k.cubin", True),
        ("triton/K/lock", False),
        ("triton/K/tmp.pid_7_abc/k.cubin", False),
        ("torch/inductor/locks/x", False),
        ("torch/inductor/aa/x.lock", False),
        ("torch/inductor/aa/block.py", True),
        ("vllm/torch_compile_cache/0/rank_0_0/backbone/cache_key_factors.json", False),
    ],
)
def test_locks_halves_and_the_record_with_the_api_key_stay_behind(path, expected):
    assert caches.travels(path) is expected


def test_arguments_about_names_and_memory_shape_no_kernel():
    words = [
        "--model",
        "/m",
        "--served-model-name",
        "n",
        "--uds",
        "s",
        "--max-model-len",
        "9",
        "--enforce-eager",
        "--gdn-prefill-backend",
        "triton",
        "--default-chat-template-kwargs",
        "{}",
        "--max-num-seqs=8",
        "-tp",
        "2",
    ]
    assert caches.shaping(words) == (
        "--enforce-eager",
        "--gdn-prefill-backend triton",
        "--max-num-seqs=8",
        "-tp 2",
    )


def test_short_options_and_underscores_are_options_too():
    assert caches.shaping(["--seed", "1", "-tp", "2", "-O0"]) == ("-O0", "-tp 2")
    assert caches.shaping(["--max_model_len", "9"]) == ()
    assert caches.shaping(["--number", "-1"]) == ("--number -1",)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"device": "NVIDIA A100"}, "for NVIDIA H200, not for NVIDIA A100"),
        ({"device": "", "capability": ""}, "not for this machine"),
        ({"capability": "8.0"}, "for NVIDIA H200"),
        ({"stack": "other"}, "the stack vllm"),
        ({"environment": "0" * 64}, "another environment"),
        ({"model": "0" * 64}, "another shape"),
        ({"glibc": "2.34"}, "glibc 2.35"),
        ({"arguments": ()}, "--max-num-seqs 8"),
    ],
)
def test_each_part_of_the_key_can_forbid_the_use_and_says_so(change, told):
    (why,) = caches.differences(KEY, replace(KEY, **change))
    assert told in why


@pytest.mark.parametrize("glibc", ["2.35", "2.100", "3.0"])
def test_the_same_host_or_one_with_a_newer_c_library_can_use_them(glibc):
    assert caches.differences(KEY, replace(KEY, glibc=glibc)) == ()


def test_the_digest_of_the_code_tells_what_an_overlay_lies_upon():
    manifest = Simulator().manifest()
    other = Simulator(environment={"bin": None, "bin/x": b""}).manifest()
    digests = {caches.environment_of(one) for one in (manifest, replace(manifest, name="b"))}
    assert len(digests) == 1
    assert caches.environment_of(other) not in digests
