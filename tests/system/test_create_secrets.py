"""Passwords and tokens: used, and kept nowhere."""

import base64
import http.server
import threading
from urllib.parse import urlsplit

import pytest
import zstandard

from manifests.exitcodes import ExitCode
from tests.support.connected import refused, run
from tests.support.index import Index, serving

SECRETS = ("index-s3cret", "channel-s3cret", "hf_t0kens3cret")
INDEX, CHANNEL, TOKEN = SECRETS


class _Guarded(http.server.SimpleHTTPRequestHandler):
    """A channel for those who know the password."""

    def do_GET(self):
        wanted = "Basic " + base64.b64encode(f"user:{CHANNEL}".encode()).decode()
        if self.headers.get("Authorization") == wanted:
            return super().do_GET()
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()
        return None

    do_HEAD = do_GET  # noqa: N815 - the base class's name

    def log_message(self, *args):
        pass


@pytest.fixture
def guarded_channel(bench):
    folder = urlsplit(bench.channel).path

    class Handler(_Guarded):
        def __init__(self, *args):
            super().__init__(*args, directory=folder)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://user:{CHANNEL}@127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def guarded_index(bench):
    index = Index(credentials=f"user:{INDEX}")
    locked = bench.locked()
    for wheel in {*locked.wheels, *locked.runtime_wheels}:
        stored = bench.place.cache / "objects" / wheel.sha256[:2] / wheel.sha256
        index.add((wheel.filename, stored.read_bytes()))
    with serving(index):
        yield index


def readings(folder):
    """Every file's bytes, packed environments also unpacked; names count too."""
    for path in folder.rglob("*"):
        yield path, str(path.relative_to(folder)).encode()
        if path.is_file():
            data = path.read_bytes()
            yield path, data
            place = data.find(b"\x28\xb5\x2f\xfd")  # a zstd frame, as it is or in a bundle's tar
            if path.suffix in (".zst", ".tar"):
                yield path, zstandard.ZstdDecompressor().decompressobj().decompress(data[place:])


def test_secrets_are_kept_nowhere(bench, guarded_channel, guarded_index, tmp_path):
    cache = bench.own_cache(tmp_path / "cache")
    lock, media = tmp_path / "kept/bundle.lock", tmp_path / "media"
    words = bench.words(
        channel=guarded_channel, index_url=guarded_index.authorised(), cache=str(cache)
    )
    env = {"HF_TOKEN": TOKEN, "SOURCE_DATE_EPOCH": "1760000000"}
    locked = run("lock", *words, "--lock", str(lock), env=env)
    assert locked.returncode == 0, locked.stderr
    made = run("create", *words, "--lock", str(lock), "--output", str(media), env=env)
    assert made.returncode == 0, made.stderr
    plan = run("create", *words, "--output", str(media), "--dry-run", env=env)
    assert plan.returncode == 0, plan.stderr

    spoken = "".join(done.stdout + done.stderr for done in (locked, made, plan))
    found = [secret for secret in SECRETS if secret in spoken]
    origin = guarded_channel.replace(f"user:{CHANNEL}@", "").encode()
    places = set()
    for folder in (lock.parent, media, cache):
        for path, data in readings(folder):
            found += [f"{secret} in {path}" for secret in SECRETS if secret.encode() in data]
            places |= {path.name} if origin in data else set()
    assert found == []
    # The public part is kept, in conda-meta too: a warm cache must not bring another's.
    assert {"bundle.lock", "env.tar.zst", "tiny-qwen3.5+small+cpu.tar"} <= places


@pytest.mark.parametrize("place", ["channel", "index_url"])
def test_secrets_are_not_told_when_a_source_refuses(bench, guarded_index, tmp_path, place):
    host = guarded_index.url.removeprefix("http://") if place == "index_url" else "127.0.0.1:9"
    cache = bench.own_cache(tmp_path / "cache", packed=False)
    where = {place: f"http://user:{CHANNEL}@{host}/simple", "cache": str(cache)}
    done = bench.create(tmp_path / "media", **where)
    refused(done, ExitCode.SOURCE, host)
    assert CHANNEL not in done.stdout + done.stderr
