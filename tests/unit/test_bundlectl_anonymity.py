import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl.anonymity import HOST, USER, Anonymiser
from bundlectl.redaction import mark

NAMES = {"gpu-node7.example.org": HOST, "gpu-node7": HOST, "karin": USER}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("karin@gpu-node7: hello", "user-1@host-1: hello"),
        ("/home/karin/models", "/home/user-1/models"),
        ("GPU-NODE7.example.org is gpu-node7", "host-1 is host-2"),
        ("from 10.1.2.3:5 to 10.1.2.3", "from address-1:5 to address-1"),
        ("inet6 fe80::1a2b:3c4d/64", "inet6 address-1/64"),
        ("ether 52:54:00:12:34:56", "ether device-1"),
        ("UUID: GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "UUID: device-1"),
        ("karina and gpu-node77", "karina and gpu-node77"),
        ("127.0.0.1 ::1 0.0.0.0 localhost", "127.0.0.1 ::1 0.0.0.0 localhost"),
        ("at 15:14:13, std::vector<c10::Half>", "at 15:14:13, std::vector<c10::Half>"),
        (f"karin had {mark('token')}", f"user-1 had {mark('token')}"),
    ],
)
def test_names_become_placeholders(text, expected):
    assert Anonymiser(NAMES)(text) == expected


def test_home_folders_name_users_that_nobody_told_of():
    replace = Anonymiser(NAMES)
    replace.learn(["/home/lee/x", "/home/admin/y"])
    assert replace("lee and karin read /home/lee") == "user-1 and user-2 read /home/user-1"
    assert replace("/home/admin is common") == "/home/admin is common"


def test_a_user_who_is_called_like_a_kind_tears_no_mark_apart():
    assert Anonymiser({"token": USER, "removed": USER})(f"token {mark('token')}") == (
        f"user-1 {mark('token')}"
    )


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_name_survives_and_twice_is_as_good_as_once(before, after):
    replace = Anonymiser(NAMES)
    text = replace(f"{before} karin 192.168.7.9 {after}")
    assert "192.168.7.9" not in text.replace(before, "").replace(after, "")
    assert " karin " not in text
    assert replace(text) == text
