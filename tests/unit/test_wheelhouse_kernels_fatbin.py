"""The readers of fat binaries and ELF files, on bytes; real libraries are in tests/e2e."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manifests.kernels import Containers, Image
from manifests.kernels.images import CUBIN, DATA, RELOCATABLE
from tests.support import gpucode
from tests.support.gpucode import container, cubin, elf, library
from wheelhouse.kernels import binary, fatbin
from wheelhouse.kernels.malformed import Malformed

SM_86 = Image("sass", "86")
PTX_86 = Image("ptx", "86", "", "8.8")
NAMES = st.sampled_from(
    ["sm_52", "sm_80", "sm_86", "sm_90", "sm_90a", "sm_100f", "sm_120", "compute_80", "lto_80"]
)


def groups(data):
    return binary.read(data)[0]


@pytest.mark.parametrize("header", [64, 72, 80, 112])
def test_images_of_every_header_size(header):
    data = container("sm_86", "sm_90a", "sm_100f", "compute_90", "lto_80", header=header)
    found, end = fatbin.container(data, 0, len(data))
    assert end == len(data)
    assert not found.empty
    assert set(found.images) == {
        SM_86,
        Image("sass", "90", "a"),
        Image("sass", "100", "f"),
        Image("ptx", "90", "", "8.8"),
        Image("lto", "80"),
    }


def test_equal_containers_are_counted_together():
    data = library(("sm_86",), ("sm_80",), ("sm_86",))
    assert groups(data) == (
        Containers((Image("sass", "80"),), 1),
        Containers((SM_86,), 2),
    )


def test_zeros_between_containers_are_padding():
    data = elf({".nv_fatbin": container("sm_86") + bytes(40) + container("sm_86") + bytes(9)})
    assert groups(data) == (Containers((SM_86,), 2),)


def test_anything_else_between_containers_is_named_with_its_offset():
    section = container("sm_86") + bytes(8) + b"\x07" + bytes(7) + container("sm_86")
    with pytest.raises(Malformed, match="neither a container nor zeros") as caught:
        list(fatbin.containers(section, 0, len(section)))
    assert caught.value.offset == len(container("sm_86")) + 8


def test_relocatable_originals_are_told_apart():
    data = elf({".nv_fatbin": container("sm_86"), "__nv_relfatbin": container("compute_86")})
    assert groups(data) == (
        Containers((SM_86,)),
        Containers((PTX_86,), carrier=RELOCATABLE),
    )


def test_containers_among_data_are_found_and_their_cubins_are_not_counted_twice():
    whole = gpucode.packed(gpucode.image("sm_86", payload=cubin(0x560556, 7)))
    data = elf({".rodata": b"text\0" + whole + b"more" + cubin(0x500550, 7)})
    assert groups(data) == (
        Containers((Image("sass", "80"),), carrier=CUBIN),
        Containers((SM_86,), carrier=DATA),
    )


@pytest.mark.parametrize("plain", [512, 0], ids=["compressed", "as it is"])
def test_a_container_without_a_kernel_is_marked(plain):
    data = container("sm_75", "compute_75", plain=plain) + container("sm_86", plain=4096)
    assert [group.empty for group in groups(data)] == [True, False]
    only_ptx = container("compute_75", plain=512)
    assert [group.empty for group in groups(only_ptx)] == [False]


def test_code_of_the_processor_is_not_searched():
    assert groups(elf({".text": (6, container("sm_86"))})) == ()


@pytest.mark.parametrize(
    ("flags", "abi", "note", "expected"),
    [
        pytest.param(0x560556, 7, b"", Image("sass", "86"), id="CUDA 12"),
        pytest.param(0x5A0D5A, 7, b"", Image("sass", "90", "a"), id="CUDA 12, sm_90a"),
        pytest.param(0x320D32, 7, b"", Image("sass", "50"), id="a mark before there were variants"),
        pytest.param(0x6005A04, 8, b"", Image("sass", "90"), id="CUDA 13"),
        pytest.param(0x600640C, 8, b"", Image("sass", "100", "a"), id="CUDA 13, marked"),
        pytest.param(
            0x6005A04, 8, b"\0ptxas -arch sm_90a\0", Image("sass", "90", "a"), id="only in the note"
        ),
        pytest.param(
            0x6006404, 8, b"\0ptxas -arch sm_100f\0", Image("sass", "100", "f"), id="a family"
        ),
    ],
)
def test_bare_cubins(flags, abi, note, expected):
    assert groups(cubin(flags, abi, note)) == (Containers((expected,), carrier=CUBIN),)


def test_a_fat_binary_alone_and_an_archive_of_objects():
    assert groups(container("sm_86")) == (Containers((SM_86,)),)
    objects = [elf({"__nv_relfatbin": container("sm_86")}), b"odd", elf({".text": b"x"})]
    data = b"!<arch>\n"
    for member in objects:
        data += f"{'name.o/':48}{len(member):<10}`\n".encode() + member + b"\n" * (len(member) % 2)
    assert groups(data) == (Containers((SM_86,), carrier=RELOCATABLE),)


def test_files_of_other_kinds_hold_nothing():
    for data in (b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01\x01" + bytes(60), b"!<thin>\nname"):
        assert binary.read(data) == ((), ())


def test_a_broken_elf_file_without_gpu_code_is_none_of_our_business():
    whole = elf({".text": b"x" * 100})
    assert binary.read(whole[:-70]) == ((), ())


@pytest.mark.parametrize("left", range(70, len(library(gpucode.PLAIN)), 13))
def test_a_cut_off_library_is_told(left):
    with pytest.raises(Malformed, match="cut off"):
        binary.read(library(gpucode.PLAIN)[:left] + container("sm_86")[:8])


def test_makers_that_a_library_names():
    data = elf({".dynstr": b"\0nvrtcCompileProgram\0nvJitLinkCreate\0", ".text": b"x"})
    assert binary.read(data) == ((), ("nvjitlink", "nvrtc"))


@given(
    st.lists(st.lists(NAMES, min_size=1, unique=True), min_size=1, max_size=6),
    st.sampled_from([64, 72, 80, 112]),
)
def test_what_was_put_in_is_read(containers, header):
    section = b"".join(container(*names, header=header) for names in containers)
    found = list(fatbin.containers(section, 0, len(section)))
    assert [sorted(map(str, one.images)) for one in found] == [
        sorted(dict.fromkeys(names)) for names in containers
    ]


@given(st.binary(max_size=400), st.integers(0, 400), st.booleans())
@example(b"\xff" * 8, 8, False)
def test_garbage_is_refused_or_read_but_never_anything_else(garbage, place, library_too):
    data = bytearray(library(("sm_86", "compute_86"), ("sm_90a",)) if library_too else b"")
    data[place : place + len(garbage)] = garbage
    for start in (b"", b"!<arch>\n", container("sm_80"), b"\x7fELF\x02\x01\x01"):
        try:
            found, _ = binary.read(bytes(start + data))
        except Malformed as error:
            assert str(error).startswith("at offset 0x")
        else:
            assert sum(group.count for group in found) <= 64


@given(st.data())
def test_every_flipped_byte_of_a_header_is_refused_or_read(draw):
    data = bytearray(library(("sm_86", "compute_86"), ("sm_90a",)))
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        binary.read(bytes(data))
    except Malformed as error:
        assert str(error).startswith("at offset 0x")
