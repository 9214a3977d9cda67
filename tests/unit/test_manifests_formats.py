"""Every format: what is written is read back; what is not of the format is a BundleError, or the
one error that the reader's documentation names, and never another exception."""

import contextlib
import dataclasses
import json
import posixpath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifests import bundle, canonical, names, placement, records, sums, tree
from manifests.errors import BundleError, IntegrityError
from tests.support.simulator import Simulator

digests = st.text("0123456789abcdef", min_size=64, max_size=64)
media_names = st.from_regex(names.MEDIA_NAME, fullmatch=True)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=20,
)


def mutated(data: bytes, draw) -> bytes:
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(changed) - 1))
        way = draw(st.sampled_from(["set", "delete", "insert"]))
        if way == "set":
            changed[place] = draw(st.integers(0, 255))
        elif way == "delete":
            del changed[place : place + draw(st.integers(1, 9))]
        else:
            changed[place:place] = draw(st.binary(max_size=9))
        if not changed:
            break
    return bytes(changed)


# SHA256SUMS


@given(table=st.dictionaries(media_names.filter(lambda n: n not in sums.UNLISTED), digests))
def test_a_list_is_read_back(table):
    if not table:
        with pytest.raises(IntegrityError):
            sums.parse(sums.render(table))
        return
    assert sums.parse(sums.render(table)) == table


@given(data=st.binary() | st.text().map(lambda text: text.encode("utf-8", "replace")))
def test_anything_is_a_list_or_refused(data):
    try:
        table = sums.parse(data)
    except BundleError:
        return
    assert sorted(data.splitlines(keepends=True)) == sums.render(table).splitlines(keepends=True)


# Canonical JSON


@given(value=plain)
def test_canonical_json_is_read_back(value):
    data = canonical.dumps(value)
    assert canonical.loads(data) == value
    assert json.loads(data) == value


@given(data=st.data())
def test_there_is_one_text_for_one_value(data):
    written = canonical.dumps(data.draw(plain))
    changed = mutated(written, data.draw)
    try:
        value = canonical.loads(changed)
    except ValueError:
        return
    assert canonical.dumps(value) == changed


@pytest.mark.parametrize("value", [1.5, [0.0], {"a": {"b": float("nan")}}, {"a": object()}])
def test_what_has_no_canonical_form(value):
    with pytest.raises(TypeError):
        canonical.dumps(value)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{}", b"{} \n", b'{"a":1,"a":1}\n', b"1.0\n", b"NaN\n", b"\xff\n"),
        *(b'"\\ud800"\n', b"[" * 100_000, b"9" * 5000 + b"\n"),
    ],
)
def test_what_is_not_canonical(data):
    with pytest.raises(ValueError):
        canonical.loads(data)


# The manifest


@settings(max_examples=300)
@given(data=st.data())
def test_a_changed_manifest_is_refused_or_another_manifest(data):
    written = Simulator().manifest().dump()
    changed = mutated(written, data.draw)
    try:
        manifest = bundle.parse(changed)
    except BundleError:
        return
    assert manifest.dump() == changed


@settings(max_examples=200)
@given(data=st.data())
def test_a_manifest_with_any_value_anywhere(data):
    value = json.loads(Simulator().manifest().dump())
    place = value
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(list(keys)))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        place = inner
    place[key] = data.draw(plain)
    with contextlib.suppress(BundleError):
        bundle.parse(canonical.dumps(value))


@given(data=st.binary())
def test_anything_is_no_manifest(data):
    with pytest.raises(BundleError):
        bundle.parse(data)


# Receipts and installed papers


receipts = st.builds(
    placement.Receipt,
    schema=st.integers(0, 9),
    release=media_names,
    manifest_sha256=digests,
    prefix=st.text(st.characters(codec="utf-8")),
    installed=st.integers(0),
    tool=st.text(st.characters(codec="utf-8")),
    ignored=st.lists(st.text(st.characters(codec="utf-8"))).map(tuple),
)


@given(receipt=receipts)
def test_a_receipt_is_read_back(receipt, tmp_path_factory):
    path = tmp_path_factory.mktemp("receipt") / "r.json"
    path.write_bytes(receipt.dump())
    assert placement.load_receipt(path) == receipt


@given(data=st.data())
def test_a_damaged_receipt_is_refused(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("receipt") / "r.json"
    path.write_bytes(mutated(data.draw(receipts).dump(), data.draw))
    with contextlib.suppress(BundleError):
        placement.load_receipt(path)


def test_a_receipt_of_brackets_is_refused(tmp_path):
    (tmp_path / "r.json").write_bytes(b"[" * 100_000)
    with pytest.raises(IntegrityError, match="nested too deeply"):
        placement.load_receipt(tmp_path / "r.json")


@pytest.mark.parametrize("release", ["", "../x", "a/b", ".", "-x", "x" * 300, "\0"])
def test_a_release_that_is_no_name(tmp_path, release):
    with pytest.raises(BundleError):
        placement.load_manifest(tmp_path, release)


# Records


@dataclasses.dataclass(frozen=True)
class Inner:
    text: str
    number: int = 0


@dataclasses.dataclass(frozen=True)
class Outer:
    inner: Inner
    many: tuple[Inner, ...] = ()
    table: dict[str, str] = dataclasses.field(default_factory=dict)
    perhaps: Inner | None = None
    flag: bool = False


inners = st.builds(Inner, st.text(), st.integers())
outers = st.builds(
    Outer,
    inners,
    st.lists(inners).map(tuple),
    st.dictionaries(st.text(), st.text()),
    st.none() | inners,
    st.booleans(),
)


@given(record=outers)
def test_a_record_is_read_back(record):
    assert records.from_data(Outer, records.to_data(record)) == record


@given(value=plain)
def test_any_data_is_a_record_or_refused(value):
    for data in (value, {"inner": value}, {"inner": {"text": "a"}, "many": value}):
        with contextlib.suppress(BundleError):
            records.from_data(Outer, data)


# Names and trees


@given(path=st.text(max_size=40))
def test_a_checked_path_stays_inside(path):
    try:
        names.check_path(path)
    except BundleError:
        return
    parts = path.split("/")
    assert not {"", ".", ".."} & set(parts)
    assert path.isascii()
    assert path.isprintable()


@given(depth=st.integers(1, 4), target=st.text("./a", max_size=20))
def test_a_checked_link_stays_inside(depth, target, tmp_path_factory):
    path = "/".join("d" * depth)
    try:
        names.check_link(path, target)
    except BundleError:
        return
    where = posixpath.normpath(posixpath.join("/root", posixpath.dirname(path), target))
    assert where == "/root" or where.startswith("/root/")


@given(url=st.text(max_size=60) | st.text("https:/@?#user[]t", max_size=60))
def test_any_url_loses_its_secrets(url):
    try:
        public = names.public_url(url)
    except ValueError:
        return  # urllib's own, for what is no URL at all
    assert not {"?", "#"} & set(public)


def test_urls_keep_no_secret():
    secret = "hunter2"
    for url in (
        f"https://user:{secret}@host/simple/",
        f"https://host/simple/?token={secret}",
        f"https://host/simple/#{secret}",
        f"https://host/t/{secret}-{secret}/channel/linux-64",
    ):
        assert secret not in names.public_url(url)


paths = st.lists(st.sampled_from(["a", "b", "A", "..", "", "c d", "\n"]), max_size=3).map("/".join)
tree_entries = st.builds(
    tree.Entry,
    path=paths,
    kind=st.sampled_from([tree.FILE, tree.LINK, tree.FOLDER, "fifo"]),
    size=st.integers(-1, 2),
    target=paths,
)


@given(entries=st.lists(tree_entries, max_size=6))
def test_a_checked_tree_can_be_made_below_one_folder(entries, tmp_path_factory):
    try:
        tree.check(entries, "tree")
    except BundleError:
        return
    kinds = {entry.path.casefold(): entry.kind for entry in entries}
    assert len(kinds) == len(entries)
    for entry in entries:
        for parent in range(1, entry.path.count("/") + 1):
            above = "/".join(entry.path.split("/")[:parent]).casefold()
            assert kinds.get(above, tree.FOLDER) == tree.FOLDER
