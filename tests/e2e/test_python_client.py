"""The Python client against the daemon: what it gets of its frames over both transports, with and without numpy.

Everything that can go wrong is in test_python_client_errors.py.
"""

import os
import re
import select
import shutil
import subprocess
import sys
import time

import pytest

from harness import BINARY, Background, Daemon, environment, limit, numbered, pipeline, wait_until
from harness.python_client import GRAY, INVERT, PACKAGE, TRANSPORTS, connect, replying

import framed  # which the harness has found
from framed import formats, wire
from framed.wire import Code, Fate, Role, Transport

pytestmark = pytest.mark.plain

LARGE = {"pixels": "gray", "width": 1024, "height": 512}


def sunk(format=GRAY, **keys):
    return pipeline(format, stages=[INVERT], source={"protocol": "native"}, sink={"protocol": "native"}, **keys)


def run_python(program, *arguments, **options):
    paths = {"PYTHONPATH": str(PACKAGE / "src")}
    return subprocess.run([sys.executable, *options.pop("python", ()), "-c", program, *map(str, arguments)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit(40), check=False,
                          env=environment(paths), **options)


# -- frames and results ------------------------------------------------------------------------------------------------


@TRANSPORTS
@pytest.mark.parametrize("format,slots,count", [(GRAY, 1, 100), (GRAY, 4, 500), (LARGE, 3, 60)])
def test_frames_are_processed_in_order(place, format, slots, count, transport):
    size = format["width"] * format["height"]
    frames = numbered(count, size)
    with Daemon(place, {"cam0": replying(format, slots=slots)}) as daemon:
        with connect(daemon, transport=transport) as client:
            assert client.transport == transport and client.welcome.slots == slots
            assert client.welcome.input_format == f"gray {format['width']}x{format['height']}"
            seen = 0
            for result in client.process(frame.tobytes() for frame in frames):
                assert (result.sequence, result.dropped, result.fate, result.session) == (seen, 0, Fate.EMITTED, 0)
                assert result.memory == bytes(255 - frames[seen]) and result.array.shape == (format["height"], format["width"])
                assert result.flags == (framed.STATE_RESTARTED if seen == 0 else 0)
                assert result.steps.total > 0 and result.timestamp > 0
                seen += 1
            assert seen == count
        daemon.account(came=count, emitted=count)


@TRANSPORTS
@pytest.mark.parametrize("completion", ["callback", "spin"])
@pytest.mark.parametrize("spin", [0.0, 0.001])
def test_one_at_a_time(place, transport, completion, spin):
    with Daemon(place, {"cam0": replying(completion=completion)}) as daemon:
        with connect(daemon, transport=transport, spin=spin) as client:
            for n in range(300):
                frame = client.acquire()
                frame.array[...] = n % 256
                client.submit(frame, sequence=n, timestamp=(stamp := time.monotonic_ns()))
                with client.receive() as result:
                    assert (result.sequence, result.timestamp) == (n, stamp)
                    assert (result.array == 255 - n % 256).all()
        daemon.account(came=300, emitted=300)


@TRANSPORTS
def test_arrays_filled_once_are_submitted_again_and_again(place, transport):
    with Daemon(place, {"cam0": replying(LARGE, slots=3)}) as daemon:
        with connect(daemon, transport=transport) as client:
            held = [client.acquire() for _ in range(3)]
            for n, frame in enumerate(held):
                frame.array[...] = 10 * n
            for n, frame in enumerate(held):
                client.submit(frame, n)
            for n in range(3, 100):
                with client.receive() as result:
                    assert result.sequence == n - 3 and result.array[-1, -1] == 255 - 10 * ((n - 3) % 3)
                client.submit(client.acquire(), n)
            client.finish()
            assert [result.sequence for result in client] == [97, 98, 99]
            assert client.receive() is None
        daemon.account(came=100, emitted=100)


def test_cursors_wrap_around(place):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with connect(daemon) as client:
            for n in range(70):  # more than four times around the rings
                client.submit(client.acquire(), n)
                client.receive().release()
            assert (client._submitted, client._seen, client._taken) == (70, 70, 70)
        daemon.account(came=70, emitted=70)


@TRANSPORTS
def test_producers_and_consumers(place, transport):
    with Daemon(place, {"cam0": sunk()}) as daemon:
        with connect(daemon, Role.CONSUMER, transport=transport) as first, connect(daemon, Role.CONSUMER) as second:
            daemon.wait_view("the consumers are there", lambda view: view["readers"] == 2)
            with connect(daemon, Role.PRODUCER, transport=transport) as producer:
                for n in range(200):
                    frame = producer.acquire()
                    frame.fill(bytes([n]) * 512)
                    producer.submit(frame, n)
                    for consumer in (first, second) if n % 2 == 1 else ():
                        for of in (n - 1, n):
                            with consumer.receive(limit(10)) as result:
                                assert result.sequence == of and result.memory == bytes([255 - of]) * 512
                with pytest.raises(framed.Error, match="a producer gets no results"):
                    producer.receive()
            daemon.account(came=200, emitted=200)


@TRANSPORTS
def test_a_producer_that_leaves_waits_for_its_frames(place, transport):
    """All are emitted when its block is left, although the reader is slow to come."""
    with Daemon(place, {"cam0": pipeline(LARGE, stages=[INVERT], source={"protocol": "native"})}) as daemon:
        def produce():
            with connect(daemon, Role.PRODUCER, transport=transport) as producer:
                for n in range(10):
                    frame = producer.acquire()
                    frame.fill(bytes([n]) * (512 * 1024))
                    producer.submit(frame, n)
        producing = Background(produce)
        daemon.wait_view("frames wait", lambda view: view["frames"]["in_flight"] > 0)
        assert not producing.done
        with daemon.reader() as reader:
            for n in range(10):
                assert reader.read(512 * 1024) == bytes([255 - n]) * (512 * 1024)
            producing.join()
        daemon.account(came=10, emitted=10)


def test_what_comes_at_the_last_moment_gives_a_producer_room(place):
    """Between its look and its answer, completions come: then not all frames are held by the caller."""
    with Daemon(place, {"cam0": pipeline(GRAY, source={"protocol": "native"}, sink={"overload": "drop"})}) as daemon:
        with connect(daemon, Role.PRODUCER) as producer:
            for n in range(producer.welcome.slots):
                producer.submit(producer.acquire(), n)
            daemon.account(came=2, unread=2)
            wait_until(lambda: producer._words[wire.COMPLETED] == 2, "both are given back")
            take_all, producer._take_all = producer._take_all, lambda: None
            assert not producer._all_held()
            producer._take_all = take_all
            producer.acquire(limit(10)).cancel()


def test_a_consumer_sees_the_end(place):
    with Daemon(place, {"cam0": sunk()}) as daemon:
        with connect(daemon, Role.CONSUMER, reconnect_for=0.1) as consumer:
            daemon.wait_view("the consumer is there", lambda view: view["readers"] == 1)
            results = Background(lambda: [result.sequence for result in consumer])
            with connect(daemon, Role.PRODUCER) as producer:
                for n in range(5):
                    producer.submit(producer.acquire(), n)
            daemon.account(came=5, emitted=5)
            daemon.finish()
            try:
                assert results.join() == [0, 1, 2, 3, 4]
            except framed.Error as error:
                assert error.code == Code.STOPPING


# -- what is dropped -----------------------------------------------------------------------------------------------------


def test_shared_memory_tells_every_fate(place):
    with Daemon(place, {"cam0": replying(slots=3)}) as daemon:
        with connect(daemon) as client:
            client.submit(client.acquire(), 1, timestamp=2**62)
            client.submit(client.acquire(), 2, deadline=1)
            client.submit(client.acquire(), 3)
            results = [client.receive() for _ in range(3)]
            fates = {result.sequence: result.fate for result in results}
            assert fates == {1: Fate.INVALID, 2: Fate.LATE, 3: Fate.EMITTED}
            assert [result.sequence for result in results if result.memory is not None] == [3]
            for result in results:
                result.release()
                result.release()
            client.submit(client.acquire(), 4, deadline=1)
            client.submit(client.acquire(), 5)
            client.finish()
            assert [result.sequence for result in client] == [5]
        daemon.account(came=5, emitted=2, late=2, invalid=1)


def test_a_connection_tells_how_many_were_dropped(place):
    with Daemon(place, {"cam0": replying(slots=3)}) as daemon:
        with connect(daemon, transport=Transport.STREAM) as client:
            for n in range(4):
                client.submit(client.acquire(), n, deadline=1 if n in (1, 2) else 0)
            client.finish()
            assert [(result.sequence, result.dropped) for result in client] == [(0, 0), (3, 2)]
        daemon.account(came=4, emitted=2, late=2)


# -- views ---------------------------------------------------------------------------------------------------------------


@pytest.mark.host
@pytest.mark.parametrize("words,size,shape,type", [
    ("gray 640x480", 307200, (480, 640), "uint8"), ("rgb24 5x3", 45, (3, 5, 3), "uint8"), ("bgr24 4x2", 24, (2, 4, 3), "uint8"),
    ("nv12 4x4", 24, (6, 4), "uint8"), ("yuv420p 4x3", 20, (5, 4), "uint8"), ("yuv420p 3x3", 17, (17,), "uint8"),
    ("yuyv422 4x2", 16, (2, 4, 2), "uint8"), ("yuyv422 3x2", 16, (2, 4, 2), "uint8"), ("grayf32le 4x2", 32, (2, 4), "float32"),
    ("float32[3,4,5]", 240, (3, 4, 5), "float32"), ("uint8[7]", 7, (7,), "uint8"), ("something new", 9, (9,), "uint8"), ("", 3, (3,), "uint8")])
def test_formats_become_types_and_shapes(words, size, shape, type):
    array = formats.view(memoryview(bytearray(size)), formats.layout_of(words, size))
    assert (array.shape, array.dtype.name, array.nbytes) == (shape, type, size)


@TRANSPORTS
def test_results_have_the_form_of_the_last_stage(place, transport):
    normalize = {"normalize": {"mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0]}}
    entry = replying({"pixels": "rgb24", "width": 20, "height": 10}, [normalize])
    with Daemon(place, {"cam0": entry}) as daemon:
        with connect(daemon, transport=transport) as client:
            frame = client.acquire()
            assert frame.array.shape == (10, 20, 3)
            frame.array[...] = (0, 51, 255)
            client.submit(frame)
            with client.receive() as result:
                assert result.array.shape == (3, 10, 20) and result.array.dtype == "float32"
                assert [round(float(plane.mean()), 3) for plane in result.array] in ([0.0, 0.2, 1.0], [0.0, 51.0, 255.0])
        daemon.account(came=1, emitted=1)


def test_shared_results_cannot_be_written(place):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with connect(daemon) as client:
            client.submit(client.acquire())
            with client.receive() as result:
                assert result.memory.readonly and not result.array.flags.writeable
        daemon.account(came=1, emitted=1)


# -- without numpy, in loops of one's own, from other places ---------------------------------------------------------------

PLAIN = """
import sys
sys.modules["numpy"] = None
import framed
client = framed.connect(sys.argv[1], transport=int(sys.argv[2]))
with client:
    frame = client.acquire()
    assert type(frame.array) is memoryview and (frame.array.format, frame.array.shape) == ("f", (2, 3))
    frame.array[1, 2] = 7.0
    client.submit(frame, 5)
    with client.receive() as result:
        print(result.sequence, result.array.tolist())
    for result in client.process(bytes(24) for _ in range(20)):
        assert result.array[0, 0] == 1.0
    print(result.sequence, "numpy" in sys.modules and sys.modules["numpy"])
"""


@TRANSPORTS
@pytest.mark.parametrize("python", [(), ("-S",)], ids=["blocked", "no-site"])
def test_without_numpy(place, transport, python):
    entry = replying({"dtype": "float32", "shape": [2, 3]}, [{"affine": {"scale": 2.0, "offset": 1.0}}])
    with Daemon(place, {"cam0": entry}) as daemon:
        ran = run_python(PLAIN, daemon.path("cam0", "source"), int(transport), python=python)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.splitlines() == ["5 [[1.0, 1.0, 1.0], [1.0, 1.0, 15.0]]", "19 None"]
        daemon.account(came=21, emitted=21)


@TRANSPORTS
def test_a_loop_of_the_callers_own(place, transport):
    with Daemon(place, {"cam0": replying(slots=3)}) as daemon:
        with connect(daemon, transport=transport) as client:
            sent, seen = 0, []
            while len(seen) < 300:
                wanted = framed.Event.RESULT | (framed.Event.ROOM if sent < 300 else 0)
                there, conditions = client.arm(wanted)
                if there & framed.Event.RESULT:
                    with client.receive() as result:
                        seen.append(result.sequence)
                elif there & framed.Event.ROOM and sent < 300:
                    client.submit(client.acquire(), sent)
                    sent += 1
                else:
                    poller = select.poll()
                    poller.register(client, conditions)
                    assert poller.poll(limit(20) * 1000), "nothing woke the loop"
            assert seen == list(range(300))
        daemon.account(came=300, emitted=300)


@TRANSPORTS
def test_no_wake_up_is_lost(place, transport):
    """Both sides sleep after every frame, at all distances in time from each other."""
    with Daemon(place, {"cam0": replying(completion="callback")}) as daemon:
        with connect(daemon, transport=transport, spin=0.0) as client:
            for n in range(2000):
                client.submit(client.acquire(), n)
                for _ in range(n % 50):
                    pass
                with client.receive(limit(20)) as result:
                    assert result.sequence == n
        daemon.account(came=2000, emitted=2000)


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="there is no ffmpeg here")
def test_the_example(place):
    entry = replying({"pixels": "bgr24", "width": 64, "height": 48})
    with Daemon(place, {"cam0": entry}) as daemon:
        ran = subprocess.run([sys.executable, PACKAGE / "examples/camera.py", "--test", "--count", "10",
                              daemon.path("cam0", "source")],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit(40), check=False,
                             env=environment({"PYTHONPATH": str(PACKAGE / "src")}))
        numbers = re.findall(r"^frame (\d+): [\d.]+ us, 0 dropped", ran.stdout, re.MULTILINE)
        assert ran.returncode == 0 and numbers == [str(n) for n in range(10)], ran.stdout
        daemon.account(came=10, emitted=10)


@pytest.mark.host
def test_the_version_is_the_daemons():
    said = subprocess.run([BINARY, "--version"], stdout=subprocess.PIPE, text=True, check=True, timeout=limit(20), env=environment()).stdout
    assert framed.__version__ in said.split()


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--editable"]], ids=["copied", "in place"])
def test_the_package_installs_without_a_network(place, options):
    """From a copy, by pip as it is: the package builds itself, and its sources also make an archive that builds."""
    pytest.importorskip("pip")
    copy = shutil.copytree(PACKAGE, place / "package", ignore=shutil.ignore_patterns("__pycache__"))
    offline = ["unshare", "-rn"] if subprocess.run(["unshare", "-rn", "true"], check=False, capture_output=True).returncode == 0 else []

    def install(source):
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        done = subprocess.run([*offline, *pip, "--upgrade", "--prefix", place / "site", *options, source], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit(50))
        assert done.returncode == 0, done.stdout
        modules, = (place / "site").glob("**/framed-*.dist-info")
        ran = subprocess.run([sys.executable, "-c", f"import site; site.addsitedir({str(modules.parent)!r}); import framed;"
                              "print(framed.__version__, framed.__file__)"], text=True, check=True, stdout=subprocess.PIPE,
                             env={**os.environ, "PYTHONPATH": ""}, timeout=limit(20))
        return ran.stdout.split(), modules.parent

    said, modules = install(copy)
    assert said == [framed.__version__, str((copy / "src" if options else modules) / "framed/__init__.py")]
    assert options or (modules / "framed/py.typed").exists()
    if not options:
        made = subprocess.run([sys.executable, "-c", "import backend; print(backend.build_sdist('.'))"], cwd=copy, check=True, text=True,
                              stdout=subprocess.PIPE, timeout=limit(20)).stdout.strip()
        assert install(copy / made)[0] == said
