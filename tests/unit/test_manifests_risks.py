"""What can run code is found by name and by what JSON files say."""

import pytest

from manifests.risks import AUTO_MAP, CODE, PICKLE, Risk, references, risks_of

NAMES = ["config.json", "model.safetensors", "b.bin", "a.pt", "sub/x.py", "kernel.so"]


def test_every_risk_is_listed_in_order():
    documents = {"config.json": {"auto_map": {"AutoModel": "x.X"}}, "other.json": [], "n.json": {}}
    assert risks_of(NAMES, documents) == (
        Risk(PICKLE, "a.pt"),
        Risk(PICKLE, "b.bin"),
        Risk(CODE, "kernel.so"),
        Risk(CODE, "sub/x.py"),
        Risk(AUTO_MAP, "config.json"),
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [("evil.PTH", PICKLE), ("sub/Evil.Bin", PICKLE), ("X.PY", CODE), ("k.So", CODE)],
)
def test_capitals_hide_nothing(name, kind):
    assert risks_of([name], {}) == (Risk(kind, name),)


def test_a_plain_model_has_none():
    assert risks_of(["config.json", "model.safetensors"], {"config.json": {"auto_map": {}}}) == ()


@pytest.mark.parametrize("kind", [PICKLE, CODE, AUTO_MAP])
def test_a_risk_says_what_it_is(kind):
    assert Risk(kind, "a/b").text().startswith("a/b: ")
    assert Risk(kind, "a/b").text().endswith(f"({kind})")


@pytest.mark.parametrize(
    ("auto_map", "found"),
    [
        ({"AutoConfig": "configuration_x.X"}, [("", "configuration_x.py")]),
        ({"AutoTokenizer": ["tok.Slow", None]}, [("", "tok.py")]),
        ({"AutoModel": "org/base--modeling.M"}, [("org/base", "modeling.py")]),
        (["org/base--tok.T"], [("org/base", "tok.py")]),
        ({"AutoModel": 7}, []),
        (None, []),
    ],
)
def test_where_classes_come_from(auto_map, found):
    documents = {"config.json": {"auto_map": auto_map}}
    assert list(references(documents)) == [("config.json", *one) for one in found]
