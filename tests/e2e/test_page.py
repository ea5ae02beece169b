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


def start(place, count, **keys):
    port = free_port()
    pipelines = {f"cam{i}": pipeline(GRAY) for i in range(count)}
    if count > 1:
        pipelines["cam1"] = pipeline(GRAY, source={"expect": "100ms"})
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
    with daemon, Browser(place, 1280) as browser:
        browser.open(f"{url}/#cam0")
        browser.wait("document.querySelectorAll('.panels svg').length === 4")
        assert browser.evaluate("document.querySelectorAll('.commands').length") == 0
        assert browser.evaluate("document.getElementById('reload').hidden")
        browser.open(f"{Forward(daemon.socket).url}/#cam0")
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
