import hashlib

import pytest

from manifests.errors import SourceError
from tests.support.index import Index as Server
from tests.support.index import serving, wheel
from wheelhouse.index import Index
from wheelhouse.sources import Sources

NAME, DATA = wheel("My_Project", "1.0")
SHA = hashlib.sha256(DATA).hexdigest()


def test_json_and_html_say_the_same():
    with serving(Server()) as server:
        server.add((NAME, DATA), requires_python=">=3.9")
        (from_json,) = Index(Sources(server.simple)).files("my.project")
        server.html_only = True
        (from_html,) = Index(Sources(server.simple)).files("My-Project")
    for link in (from_json, from_html):
        assert (link.filename, link.sha256, link.requires_python) == (NAME, SHA, ">=3.9")
        assert link.url == f"{server.url}/files/{NAME}"
    assert (from_json.size, from_html.size) == (len(DATA), 0)


def test_a_page_is_read_once():
    with serving(Server()) as server:
        server.add((NAME, DATA))
        index = Index(Sources(server.simple))
        index.prefetch(["my-project", "absent"])
        assert index.files("my_project")
        assert index.files("absent") == ()
        assert len(server.requests) == 2


def test_an_index_in_a_folder(tmp_path):
    page = tmp_path / "simple" / "my-project"
    page.mkdir(parents=True)
    (page / NAME).write_bytes(DATA)
    (page / "index.html").write_text(
        f'<a href="{NAME}#sha256={SHA}">x</a><a href="notes.txt">y</a>'
    )
    index = Index(Sources((tmp_path / "simple").as_uri()))
    (link,) = index.files("my-project")
    assert link.local == page / NAME
    assert link.sha256 == SHA
    assert index.files("absent") == ()


def test_a_page_of_links_with_a_base(tmp_path):
    page = tmp_path / "links.html"
    page.write_text(f'<base href="https://u:p@host.example/d/"><a href="{NAME}?token=1">x</a>')
    (link,) = Index(Sources("", (str(page),))).files("my-project")
    assert link.url == f"https://host.example/d/{NAME}"


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(SourceError, match="absent"):
        Index(Sources("", (str(tmp_path / "absent"),))).files("x")


def test_a_page_with_an_impossible_digest_is_refused():
    with serving(Server(html_only=True)) as server:
        server.add((NAME, DATA), sha256="abc")
        with pytest.raises(SourceError, match="not a page of a package index"):
            Index(Sources(server.simple)).files("my-project")
