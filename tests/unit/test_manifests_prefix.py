"""The inverse of conda-unpack, held against conda-pack's own functions."""

import pytest
from conda_pack.prefixes import replace_prefix
from hypothesis import given
from hypothesis import strategies as st

from manifests.errors import IntegrityError, TargetError
from manifests.prefix import BINARY, TEXT, apply, restore, reversible
from manifests.tree import Rewrite

PLACEHOLDER = ("/opt/placehold_" * 20)[:255]
PREFIX = "/srv/my bundle/releases/1/env"
# Pieces that meet in real files: the placeholder, near misses of it and of the prefix, and NULs.
PLACED = PLACEHOLDER.encode()
PIECES = st.sampled_from([PLACED, PLACED[:-1], b"/srv/my bundl", b"\0", b"\0\0", b"/bin:", b"x"])
FILES = st.lists(PIECES | st.binary(max_size=6), max_size=12).map(b"".join)
MODES = st.sampled_from([TEXT, BINARY])


@given(FILES, MODES)
def test_applies_as_conda_unpack_does(data: bytes, mode: str) -> None:
    theirs = replace_prefix(data, mode, PLACEHOLDER, PREFIX)

    assert apply(data, Rewrite(PLACEHOLDER, mode), PREFIX) == theirs


@given(FILES, MODES)
def test_restores_what_conda_unpack_changed(data: bytes, mode: str) -> None:
    rewrite = Rewrite(PLACEHOLDER, mode)
    installed = replace_prefix(data, mode, PLACEHOLDER, PREFIX)

    assert PREFIX.encode() not in data
    assert restore(installed, rewrite, PREFIX) == data
    assert reversible(data, rewrite, PREFIX)


@given(FILES, MODES, st.integers(0, 10_000), st.integers(1, 255))
def test_an_altered_byte_never_restores_to_the_packed_file(
    data: bytes, mode: str, position: int, change: int
) -> None:
    rewrite = Rewrite(PLACEHOLDER, mode)
    installed = bytearray(replace_prefix(data + b"end", mode, PLACEHOLDER, PREFIX))
    installed[position % len(installed)] ^= change

    try:
        restored = restore(bytes(installed), rewrite, PREFIX)
    except IntegrityError:
        return
    assert restored != data + b"end"


@given(FILES, MODES, st.text("/usrv my", min_size=1, max_size=4).map(lambda text: "/" + text))
def test_reversible_tells_the_truth_for_short_prefixes(data: bytes, mode: str, prefix: str) -> None:
    rewrite = Rewrite(PLACEHOLDER, mode)
    installed = replace_prefix(data, mode, PLACEHOLDER, prefix)

    try:
        recovered = restore(installed, rewrite, prefix) == data
    except IntegrityError:
        recovered = False
    assert reversible(data, rewrite, prefix) == recovered


@pytest.mark.parametrize("mode", [TEXT, BINARY])
def test_a_file_that_conda_unpack_never_saw_is_refused(mode: str) -> None:
    packed = b"at " + PLACEHOLDER.encode() + b"/lib\0"

    with pytest.raises(IntegrityError, match="no such file"):
        restore(packed, Rewrite(PLACEHOLDER, mode), PREFIX)


def test_a_prefix_that_the_file_holds_by_itself_is_not_reversible() -> None:
    rewrite = Rewrite(PLACEHOLDER, TEXT)

    assert not reversible(b"#!/usr/bin/env python\n" + PLACEHOLDER.encode(), rewrite, "/usr")


@pytest.mark.parametrize("length", [255, 256])
def test_binary_files_have_room_for_as_much_as_the_placeholder(length: int) -> None:
    data, rewrite = PLACEHOLDER.encode() + b"/lib\0", Rewrite(PLACEHOLDER, BINARY)
    prefix = "/" + "p" * (length - 1)
    if length > 255:
        with pytest.raises(TargetError, match="at most 255"):
            apply(data, rewrite, prefix)
        with pytest.raises(IntegrityError, match="too long"):
            restore(data, rewrite, prefix)
    else:
        assert restore(apply(data, rewrite, prefix), rewrite, prefix) == data


def test_a_file_without_its_padding_is_refused() -> None:
    rewrite = Rewrite(PLACEHOLDER, BINARY)
    installed = apply(PLACEHOLDER.encode() + b"\0tail", rewrite, PREFIX)

    for broken in (installed[:-10], installed.replace(b"\0\0tail", b"\0xtail")):
        with pytest.raises(IntegrityError, match="padding"):
            restore(broken, rewrite, PREFIX)


@pytest.mark.parametrize("rewrite", [Rewrite(PLACEHOLDER, "other"), Rewrite("", TEXT)])
def test_unknown_rewrites_are_refused(rewrite: Rewrite) -> None:
    with pytest.raises(IntegrityError, match="unknown rewrite"):
        apply(b"", rewrite, PREFIX)
