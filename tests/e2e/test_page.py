"""The page in a browser: what it shows is what /v1/status says, at every width, and what is stale looks stale."""

import contextlib
import json
import signal
import socket
import threading
import urllib.request

import pytest

from harness import Daemon, numbered, pipeline
from harness.browser import PROGRAM, Browser
from test_pictures import Camera, Viewer
from test_status import free_port

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not PROGRAM, reason="there is no chromium")]

GRAY = {"pixels": "gray", "width": 64, "height": 48}
SIZE = 64 * 48
ROWS = "document.querySelectorAll('#table > tbody > tr').length"
CELLS = """Object.fromEntries([...document.querySelectorAll('#table > tbody > tr')].map(row =>
    [row.cells[0].innerText, Object.fromEntries([...row.cells].map(cell => [cell.dataset.label, cell.innerText]))]))"""
NAMELESS = """[...document.querySelectorAll('button, input, img, svg[role=img]')].filter(element => !(element.innerText ||
    element.alt || element.getAttribute('aria-label') || element.closest('label'))).map(element => element.outerHTML)"""


# What a checker of accessibility asks, as expressions that list what is wrong.
CONTRAST = """(() => {
    const number = text => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
    const ground = element => { for (let at = element; at; at = at.parentElement) {
        const colour = number(getComputedStyle(at).backgroundColor); if (colour.length === 3) return colour; } return [255, 255, 255]; };
    const wrong = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement, style = getComputedStyle(element);
        if (!texts.currentNode.data.trim() || element.matches('script, noscript') || !element.getClientRects().length) continue;
        const [a, b] = [light(number(style.color)), light(ground(element))].sort((x, y) => y - x);
        if ((a + .05) / (b + .05) < 4.5 && !element.closest(':disabled')) wrong.push(`${texts.currentNode.data}: ${style.color}`);
    }
    return wrong })()"""
HEADS = "[...document.querySelectorAll('th')].filter(head => !head.scope || !head.innerText.trim()).map(head => head.outerHTML)"
HEADINGS = """[...document.querySelectorAll('h1, h2, h3, h4')].map(each => Number(each.tagName[1]))
    .filter((level, index, all) => level > (all[index - 1] ?? 0) + 1 || level === 1 && index > 0)"""
LANDMARKS = """['header', 'main', 'nav', '[role=search]', 'h1', '[role=status]'].filter(each => !document.querySelector(each))
    .concat([...document.body.children].filter(each => !each.matches('header, main, form, script, noscript')).map(each => each.outerHTML))"""
UNSORTED = "[document.querySelectorAll('[aria-sort=ascending], [aria-sort=descending]').length].filter(count => count !== 1)"
DOUBLE = "[...document.querySelectorAll('[id]')].map(each => each.id).filter((id, index, all) => all.indexOf(id) !== index)"
# What is read aloud meanwhile.
SPOKEN = """new Promise(done => {
    const said = [], observer = new MutationObserver(changes => said.push(...changes.map(change => change.target.textContent)));
    document.querySelectorAll('[role=status], [aria-live]').forEach(each => observer.observe(each, {childList: true, subtree: true, characterData: true}));
    setTimeout(() => done(said), 3500) })"""
# What the table should say of the status that it shows.
EXPECTED = """Object.fromEntries(Object.entries(last.pipelines).map(([name, p]) => [name, [p.throughput.in_fps, p.throughput.out_fps]
    .map(rate => rate.toFixed(rate < 100 ? 1 : 0)).concat(Object.values(p.dropped_last_minute).reduce((a, b) => a + b, 0), p.waiting)]))"""
SHOWN = """Object.fromEntries([...document.querySelectorAll('#table > tbody > tr:not([id])')].map(row => [row.querySelector('.name').innerText,
    [row.querySelector('.in').innerText, row.querySelector('.out').innerText, parseInt(row.querySelector('.dropped').innerText),
     row.querySelector('.waits').innerText]]))"""


def start(place, count, **keys):
    port = free_port()
    pipelines = {f"cam{i}": pipeline(GRAY, source={"mode": "0666"}, sink={"mode": "0666"}) for i in range(count)}
    if count > 1:
        pipelines["cam1"] = pipeline(GRAY, source={"mode": "0666", "expect": "100ms"}, sink={"mode": "0666"})
    return Daemon(place, pipelines, status={"socket": str(place / "status.sock"), "http": f"127.0.0.1:{port}", **keys}), f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("width", [360, 1280, 3000])
@pytest.mark.parametrize("count", [1, 8, 200])
def test_the_page_fits_and_says_what_status_says(place, width, count):
    daemon, url = start(place, count)
    with daemon, Browser(place, width, dark=width == 1280) as browser:
        with daemon.reader("cam0") as reader, daemon.producer("cam0") as producer:
            producer.send(numbered(10, SIZE).tobytes())
            reader.frames(10, SIZE)
            daemon.account("cam0", came=10, emitted=10)
            browser.open(f"{url}/#cam0")
            browser.wait(f"{ROWS} === {count + 1}")
            browser.wait("document.querySelectorAll('.panels svg').length === 4")
            assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
            frames = browser.evaluate("document.querySelector('.panels').innerText")
            assert "came in\t10" in frames and "emitted\t10" in frames and "python" in frames
        shown = browser.evaluate(CELLS)
        assert shown["cam0"]["state"] == "running" and shown["cam0"]["dropped, last minute"] == "0"
        if count > 1:
            browser.wait(f"({CELLS}).cam1.state === 'silent'")
            assert "cam1" in browser.evaluate("document.getElementById('banner').innerText")
        assert browser.evaluate(NAMELESS) == []
        assert browser.complaints() == []


@pytest.mark.parametrize("dark", [False, True])
def test_nobody_is_kept_from_reading_it(place, dark):
    """In every state that a pipeline has for long, at the narrowest width, with a row opened by keyboard alone."""
    daemon, url = start(place, 8)
    with daemon, Forward(daemon.socket) as forward, Browser(place, 1280 if dark else 360, dark=dark) as browser, Camera(daemon):
        daemon.post("/v1/pipelines/cam2/pause")
        daemon.post("/v1/pipelines/cam3/drain")
        browser.open(forward.url)
        browser.wait(f"{ROWS} === 8 && ({CELLS}).cam1.state === 'silent' && ({CELLS}).cam2.state === 'paused'")
        for _ in range(40):
            browser.press("Tab")
            assert browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            if browser.evaluate("document.activeElement.innerText") == "cam0":
                break
        browser.press("Enter")
        browser.wait("document.querySelectorAll('.panels svg').length === 4")
        assert browser.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
        browser.evaluate("document.getElementById('pictures').click()")
        for wrong in (NAMELESS, CONTRAST, HEADS, HEADINGS, LANDMARKS, UNSORTED, DOUBLE, SPOKEN):
            assert browser.evaluate(wrong) == [], wrong
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        shown, expected, status = browser.evaluate(f"[{SHOWN}, {EXPECTED}, last.pipelines]")
        assert shown == expected and shown.keys() == daemon.status()["pipelines"].keys()
        assert status["cam0"]["frames"]["in"] > 0 and float(shown["cam0"][0]) > 0
        assert browser.complaints() == []


def test_rows_are_sorted_and_filtered(place):
    daemon, url = start(place, 12)
    names = "[...document.querySelectorAll('#table > tbody > tr')].map(row => row.cells[0].innerText)"
    with daemon, Browser(place, 1280) as browser:
        browser.open(url)
        browser.wait(f"{ROWS} === 12")
        assert browser.evaluate(names) == [f"cam{i}" for i in range(12)]
        browser.evaluate("document.querySelector('th button').click()")
        assert browser.evaluate(names) == [f"cam{i}" for i in range(11, -1, -1)]
        browser.evaluate("""(() => { const field = document.getElementById('filter'); field.value = 'CAM1';
                             field.dispatchEvent(new Event('input')) })()""")
        assert browser.evaluate(names) == ["cam11", "cam10", "cam1"]


PIXELS = """(() => { const canvas = document.createElement('canvas').getContext('2d');
    canvas.drawImage(document.querySelector('.panels img'), 0, 0); return canvas.getImageData(0, 0, 1, 1).data[0] })()"""


def test_an_open_row_is_live_while_it_is_seen(place):
    daemon, url = start(place, 1)
    shown = "[...document.querySelectorAll('.panels img')].map(image => [image.naturalWidth, 'live' in image.dataset])"
    hide = """(hidden => { Object.defineProperty(document, 'hidden', {get: () => hidden, configurable: true});
                 document.dispatchEvent(new Event('visibilitychange')) })"""
    with daemon, Browser(place, 1280) as browser, Camera(daemon):
        browser.open(f"{url}/#cam0")
        browser.wait(f"JSON.stringify({shown}) === '[[64,true],[64,true]]'")
        browser.wait(f"{PIXELS} !== {browser.evaluate(PIXELS)}")
        browser.evaluate(f"{hide}(true)")
        assert browser.evaluate(shown) == [[0, False], [0, False]]
        browser.evaluate(f"{hide}(false)")
        browser.wait(f"JSON.stringify({shown}) === '[[64,true],[64,true]]'")
        assert browser.complaints() == []


def test_where_too_many_watch_the_page_shows_single_pictures(place):
    daemon, url = start(place, 1)
    with daemon, Browser(place, 1280) as browser, Camera(daemon):
        viewers = [Viewer(daemon) for _ in range(25)]
        for viewer in viewers:
            viewer.head()
        browser.open(f"{url}/#cam0")
        browser.wait("[...document.querySelectorAll('.panels img')].every(image => image.dataset.still && image.naturalWidth === 64)")
        for viewer in viewers:
            viewer.close()


def test_a_pipeline_without_frames_leads_to_no_complaint(place):
    daemon, url = start(place, 1)
    with daemon, Browser(place, 1280) as browser:
        browser.open(f"{url}/#cam0")
        browser.wait("document.querySelectorAll('.panels img').length === 2")
        browser.evaluate("document.getElementById('pictures').click()")
        browser.evaluate("new Promise(done => { const still = new Image(); still.onerror = done; still.src = '/v1/pipelines/cam0/in.jpg' })")
        assert browser.complaints() == []


class Forward:
    """Carries connections of a TCP port of this machine to the Unix socket, as ssh -L does."""

    def __init__(self, path):
        self.path, self.listener = path, socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.listener.close()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                daemon = socket.socket(socket.AF_UNIX)
                daemon.connect(str(self.path))
                for ends in ((client, daemon), (daemon, client)):
                    threading.Thread(target=self.carry, args=ends, daemon=True).start()

    @staticmethod
    def carry(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def press(label):
    return f"[...document.querySelectorAll('button')].find(button => button.innerText === '{label}').click()"


def test_over_the_socket_the_page_commands(place):
    daemon, url = start(place, 1)
    said = "document.getElementById('said').innerText"
    with daemon, Forward(daemon.socket) as forward, Browser(place, 1280) as browser:
        browser.open(f"{url}/#cam0")
        browser.wait("document.querySelectorAll('.panels svg').length === 4")
        assert browser.evaluate("document.querySelectorAll('.commands').length") == 0
        assert browser.evaluate("document.getElementById('reload').hidden")
        browser.open(f"{forward.url}/#cam0")
        browser.wait("document.querySelectorAll('.commands button').length === 3")
        for label, state in (("Pause", "paused"), ("Resume", "running"), ("Drain", "drained")):
            browser.evaluate(press(label))
            browser.wait(f"{said} === '{label} cam0: done' && ({CELLS}).cam0.state === '{state}'")
        browser.evaluate(press("Reload the configuration"))
        browser.wait(f"{said} === 'Reload: done'")
        assert browser.complaints() == []


def test_the_page_asks_for_the_token(place):
    (place / "token").write_text("0123456789abcdef")
    daemon, url = start(place, 1, token=str(place / "token"))
    enter = """(token => { document.querySelector('#token input').value = token; document.querySelector('#token button').click() })"""
    banner = "document.getElementById('banner').innerText"
    with daemon, Browser(place, 1280) as browser:
        browser.open(url)
        browser.wait(f"{banner}.includes('whoever has its token')")
        browser.evaluate(f"{enter}('0123456789abcdee')")
        browser.wait(f"{banner}.includes('not the token')")
        browser.evaluate(f"{enter}('0123456789abcdef')")
        browser.wait(f"{banner}.includes('healthy') && {ROWS} === 1")
        browser.open(url)
        browser.wait(f"{banner}.includes('healthy') && {ROWS} === 1")


def test_a_daemon_that_does_not_answer_is_not_shown_as_running(place):
    daemon, url = start(place, 1)
    with daemon, Browser(place, 1280) as browser:
        browser.open(url)
        browser.wait("document.getElementById('banner').className === 'good'")
        daemon.signal(signal.SIGSTOP)
        browser.wait("document.body.classList.contains('stale')")
        assert "no answer since" in browser.evaluate("document.getElementById('banner').innerText")
        daemon.signal(signal.SIGCONT)
        browser.wait("!document.body.classList.contains('stale')")


def test_history_is_there_when_the_page_opens(place):
    daemon, url = start(place, 1)
    with daemon:
        daemon.wait_log("is ready")
        with urllib.request.urlopen(f"{url}/v1/pipelines/cam0/history") as answer:
            document = json.load(answer)
        assert document["columns"] == ["age_s", "in_fps", "out_fps", "p99_us", "dropped"]
        assert isinstance(document["intervals"], list)
