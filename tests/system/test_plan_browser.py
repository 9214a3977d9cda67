"""The plan's page in a real browser: Chromium, driven over a pipe (Chrome DevTools Protocol)."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from bundler.plan import page
from tests.support.plans import GPU_PLAN

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium (Debian: chromium)")
WIDTHS = (320, 560, 800, 1040, 1920)
SCHEMES = ("light", "dark")
#: Seconds that the browser has for anything.
PATIENCE = 60


class Browser:
    """A headless Chromium with one tab.

    `--remote-debugging-pipe`: JSON messages ended by NUL, in on descriptor 3 and out on 4.
    """

    def __init__(self, profile: Path) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()

        def descriptors() -> None:
            # By way of high numbers: a pipe may have got 3 or 4 itself.
            high = [os.dup2(theirs_in, 60), os.dup2(theirs_out, 61)]
            os.dup2(high[0], 3), os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [
                str(CHROMIUM),
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
                *("--no-first-run", "--disable-background-networking", "--remote-debugging-pipe"),
                *(f"--user-data-dir={profile}", "about:blank"),
            ],
            preexec_fn=descriptors,
            pass_fds=(3, 4, theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in), os.close(theirs_out)
        self._out, self._in = os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")
        self._answers: Queue[dict[str, Any]] = Queue()
        self._count = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        tab = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def _read(self) -> None:
        rest = b""
        while piece := self._in.read1():
            *messages, rest = (rest + piece).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self._answers.put(message)
                else:
                    self.events.append(message)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One call; its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        answer = self._answers.get(timeout=PATIENCE)
        assert answer["id"] == self._count
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression, awaited."""
        done = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def open(self, path: Path, width: int, height: int = 900) -> None:
        """Show a page in a window of that size, and wait until it is complete."""
        self.events.clear()
        self.resize(width, height)
        self.ask("Page.navigate", url=path.as_uri())
        assert self.run(
            "new Promise(done => { const look = () => document.readyState === 'complete'"
            " && location.protocol === 'file:' ? done(true) : setTimeout(look, 10); look(); })"
        )

    def resize(self, width: int, height: int = 900) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def media(self, kind: str = "screen", scheme: str = "light") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", media=kind, features=features)

    def told(self, method: str) -> list[dict[str, Any]]:
        """The events of one kind since the page was opened."""
        return [event["params"] for event in self.events if event["method"] == method]

    def picture(self, path: Path) -> None:
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        self._session = ""
        self.ask("Browser.close")
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        self._out.close(), self._in.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        started = Browser(Path(profile))
        yield started
        started.close()


@pytest.fixture(scope="module")
def document(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "plan.html"
    path.write_text(page(GPU_PLAN), "utf-8")
    return path


@pytest.fixture(params=WIDTHS)
def shown(browser, document, request) -> Browser:
    """The page at one width."""
    browser.media()
    browser.open(document, request.param)
    return browser


def test_nothing_is_complained_about_and_nothing_is_asked_of_anybody(browser, document):
    browser.open(document, 1280)
    assert browser.told("Log.entryAdded") == []
    assert browser.told("Runtime.consoleAPICalled") == []
    assert browser.told("Runtime.exceptionThrown") == []
    asked = [event["request"]["url"] for event in browser.told("Network.requestWillBeSent")]
    assert [url for url in asked if not url.startswith("data:")] == [document.as_uri()]


@pytest.mark.parametrize(
    "attempt",
    [
        "const e = new Image(); e.src = ADDRESS",
        "fetch(ADDRESS).catch(() => 0)",
        "const e = document.createElement('script'); e.src = ADDRESS; document.body.append(e)",
        "const e = document.createElement('link'); e.rel = 'stylesheet'; e.href = ADDRESS;"
        " document.head.append(e)",
        "const e = document.createElement('iframe'); e.src = ADDRESS; document.body.append(e)",
        "const e = document.createElement('script'); e.textContent = '1'; document.body.append(e)",
        "document.body.setAttribute('style', 'color: red')",
    ],
)
def test_the_policy_forbids_every_request_and_every_other_script(browser, document, attempt):
    browser.open(document, 1280)
    broken = browser.run(
        "new Promise(done => { document.addEventListener('securitypolicyviolation',"
        " event => done(event.effectiveDirective)); setTimeout(() => done('allowed'), 3000);"
        f" {attempt.replace('ADDRESS', repr('http://127.0.0.1:9/x'))}; }})"
    )
    assert broken.endswith("-src") or "-src-" in broken, broken


TILES = """
[...document.querySelectorAll('.map')].filter(map => map.checkVisibility()).map(map => ({
  box: map.viewBox.baseVal.width * map.viewBox.baseVal.height,
  tiles: [...map.querySelectorAll('.tile')].map(tile => {
    const plain = box => [box.x, box.y, box.x + box.width, box.y + box.height];
    return {
      bytes: +tile.dataset.bytes, name: tile.getAttribute('aria-label'),
      rect: plain(tile.querySelector('rect').getBBox()),
      texts: [...tile.querySelectorAll('text')].map(text => plain(text.getBBox())),
    };
  }),
}))
"""


def test_areas_are_proportional_and_fill_the_picture(shown):
    (drawn,) = shown.run(TILES)
    whole = sum(tile["bytes"] for tile in drawn["tiles"])
    assert whole == sum(item.size for item in GPU_PLAN.items)
    areas = 0.0
    for tile in drawn["tiles"]:
        left, top, right, bottom = tile["rect"]
        area = (right - left) * (bottom - top)
        areas += area
        # Coordinates have three digits.
        slack = 0.002 * (right - left + bottom - top)
        assert area == pytest.approx(tile["bytes"] / whole * drawn["box"], abs=slack), tile["name"]
    assert areas == pytest.approx(drawn["box"], rel=1e-3)


def test_no_tile_lies_on_another(shown):
    (drawn,) = shown.run(TILES)
    rects = [tile["rect"] for tile in drawn["tiles"]]
    for number, (left, top, right, bottom) in enumerate(rects):
        for other in rects[number + 1 :]:
            wide = min(right, other[2]) - max(left, other[0])
            high = min(bottom, other[3]) - max(top, other[1])
            assert wide < 0.01 or high < 0.01


def test_no_letter_leaves_its_tile_or_touches_another(shown):
    (drawn,) = shown.run(TILES)
    assert sum(len(tile["texts"]) for tile in drawn["tiles"]) > 10
    for tile in drawn["tiles"]:
        left, top, right, bottom = tile["rect"]
        for text in tile["texts"]:
            assert text[0] >= left and text[2] <= right, tile["name"]
            assert text[1] >= top and text[3] <= bottom + 1, tile["name"]
        if len(tile["texts"]) == 2:
            assert tile["texts"][0][3] <= tile["texts"][1][1] + 3, tile["name"]


def test_nothing_is_wider_than_the_window(shown):
    assert shown.run("document.documentElement.scrollWidth <= innerWidth")
    clipped = shown.run(
        "[...document.querySelectorAll('h1, h2, p, dd, dt, li, section')]"
        ".filter(e => e.scrollWidth > e.clientWidth + 1 && e.checkVisibility())"
        ".map(e => e.textContent.slice(0, 60))"
    )
    assert clipped == []


def test_letters_in_the_picture_can_be_read_at_every_width(shown):
    scale = shown.run(
        "(() => { const map = [...document.querySelectorAll('.map')]"
        ".find(map => map.checkVisibility());"
        " return map.getBoundingClientRect().width / map.viewBox.baseVal.width; })()"
    )
    assert 11 * scale >= 8


def test_pointing_at_a_tile_tells_what_it_is(browser, document):
    browser.open(document, 1280)
    spot = browser.run(
        "(() => { const t = document.querySelectorAll('.wide .tile')[3]; t.scrollIntoView();"
        " const b = t.getBoundingClientRect();"
        " return [b.x + b.width / 2, b.y + b.height / 2, t.getAttribute('aria-label')]; })()"
    )
    browser.ask("Input.dispatchMouseEvent", type="mouseMoved", x=spot[0], y=spot[1])
    assert browser.run("document.getElementById('detail').textContent") == spot[2]


def test_the_arrow_keys_walk_through_the_picture(browser, document):
    browser.open(document, 1280)
    names = browser.run(
        "[...document.querySelectorAll('.wide .tile')].map(t => t.getAttribute('aria-label'))"
    )

    def press(key: str) -> str:
        for kind in ("keyDown", "keyUp"):
            browser.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key)
        told: str = browser.run("document.getElementById('detail').textContent")
        assert browser.run("document.activeElement.getAttribute('aria-label')") == told
        return told

    assert press("Tab") == names[0]
    assert press("ArrowRight") == names[1]
    assert press("ArrowDown") == names[2]
    assert press("ArrowLeft") == names[1]
    assert press("End") == names[-1]
    assert press("ArrowRight") == names[-1]
    assert press("Home") == names[0]
    focusable = browser.run("document.querySelectorAll('.wide .tile[tabindex=\"0\"]').length")
    assert focusable == 1


CONTRAST = """
(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const light = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const part = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const below = e => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (colour !== 'rgba(0, 0, 0, 0)') return colour;
    }
    return 'white';
  };
  const found = {};
  const note = (name, value) => found[name] = Math.min(found[name] ?? 99, value);
  for (const e of document.querySelectorAll('h1, p, dt, dd, small, th, td, li, .chip, .soft')) {
    if (e.textContent.trim() && e.checkVisibility())
      note(e.tagName + '.' + e.className, ratio(getComputedStyle(e).color, below(e)));
  }
  for (const tile of document.querySelectorAll('.tile')) {
    const text = tile.querySelector('text');
    const rect = getComputedStyle(tile.querySelector('rect')).fill;
    if (text) note(tile.getAttribute('class'), ratio(getComputedStyle(text).fill, rect));
  }
  return found;
})()
"""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_everything_can_be_read_in_both_schemes(browser, document, scheme):
    browser.media(scheme=scheme)
    browser.open(document, 1280)
    found = browser.run(CONTRAST)
    assert len(found) > 12
    # WCAG 2.2, success criterion 1.4.3 (level AA).
    assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}


def test_the_schemes_differ(browser, document):
    colours = set()
    for scheme in SCHEMES:
        browser.media(scheme=scheme)
        browser.open(document, 1280)
        colours.add(browser.run("getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2


def test_on_paper_it_is_light_and_the_picture_is_the_wide_one(browser, document):
    browser.media("print", "dark")
    browser.open(document, 500)
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    shown = browser.run(
        "[...document.querySelectorAll('.map')].filter(m => m.checkVisibility())"
        ".map(m => m.getAttribute('class'))"
    )
    assert shown == ["map wide"]
    printed = base64.b64decode(browser.ask("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert printed.startswith(b"%PDF")


def test_the_table_names_everything_that_the_picture_shows(browser, document):
    browser.media()
    browser.open(document, 1280)
    rows = browser.run(
        "[...document.querySelectorAll('.everything tbody tr:not(.sum) th')]"
        ".map(e => e.textContent)"
    )
    assert sorted(rows) == sorted(item.name for item in GPU_PLAN.items)


def test_names_of_others_are_text_and_never_markup(browser, tmp_path):
    bad = "<img src=x onerror=alert(1)>@BODY@</script><script>alert(1)</script>"
    path = tmp_path / "bad.html"
    items = tuple(replace(item, name=bad) for item in GPU_PLAN.items[:3])
    changed = replace(GPU_PLAN, model=f"{bad} from hf:x", notes=(bad,), output=bad, items=items)
    path.write_text(page(changed), "utf-8")
    browser.open(path, 1280)
    assert browser.told("Log.entryAdded") == []
    assert browser.run("document.images.length") == 0
    assert browser.run("document.scripts.length") == 1
    assert browser.run("document.querySelector('h1').textContent") == bad
