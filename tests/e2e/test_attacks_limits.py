"""Too few descriptors, sinks that fail in every way, and a daemon that must sleep when there is nothing to do."""

import os
import resource
import signal
import time

import pytest

from harness import BINARY, Background, Daemon, Producer as Client, limit, numbered, pipeline, require_whole, wait_until, whole

pytestmark = pytest.mark.memory

SIZE = 2048
BIG = 16 * SIZE  # what the daemon shares with a worker is smaller than a few such frames
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
LARGE_BYTES = 256 << 10
LARGE = {"dtype": "uint8", "shape": [LARGE_BYTES]}


@pytest.mark.host  # a driver wants descriptors of its own
@pytest.mark.parametrize("kind", ["socket", "reply"])
def test_a_start_with_any_number_of_descriptors(place, kind):
    """It starts and serves, or it says that descriptors are too few; nothing in between, and no crash."""
    entry = pipeline(FORMAT, sink={"reply": True} if kind == "reply" else {})
    outcomes = set()
    for count in range(10, 60, 2):  # with fewer a sanitizer cannot look for what is left at the end
        def before(count=count):
            resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
        daemon = Daemon(place, {"cam0": entry}, before=before, ready=False)
        with daemon:
            wait_until(lambda: daemon.process.poll() is not None or "is ready" in daemon.log,
                       lambda: f"{count} descriptors: it is ready or it ends:\n{daemon.log}")
            if daemon.process.poll() is None:
                daemon.signal(signal.SIGTERM)
                daemon.ends(0)
                outcomes.add("ready")
            else:
                assert daemon.process.returncode in (70, 78), (count, daemon.log)
                assert "open files" in daemon.log, (count, daemon.log)
                outcomes.add("refused")
                daemon.settled = True
        daemon.log_file.unlink()
    assert outcomes == {"ready", "refused"}


@pytest.mark.host
@pytest.mark.plain
@pytest.mark.skipif("san" in BINARY.parent.name, reason="a sanitizer takes more address space than there may be")
def test_a_start_without_room_for_the_threads_of_files(place):
    """It says so, where libuv would abort without a word."""
    def before():
        resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, 64 << 20))  # of each thread
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    daemon = Daemon(place, {"cam0": pipeline(FORMAT)}, before=before, env={"UV_THREADPOOL_SIZE": "1000"}, ready=False)
    with daemon:
        daemon.settled = True
        daemon.ends(70)
    assert "cannot start 1000 threads" in daemon.log and "raise the limit" in daemon.log, daemon.log


def test_a_reload_without_descriptors_harms_nobody(place):
    """What runs goes on, and what is added may wait; once there are descriptors again, all of it runs."""
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            daemon.wait_view("both are there", lambda view: view["sessions"] == 1)
            before = daemon.open_files()
            soft, hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
            old = daemon.config
            daemon.write({"cam0": pipeline(FORMAT), "cam1": pipeline(FORMAT), "cam2": pipeline(FORMAT)})
            new, daemon.config = daemon.config, old
            for spare in range(2, 12):
                resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (before + spare, hard))
                code, answer = daemon.post("/v1/reload")
                if code == 200:
                    break
                assert code in (400, 500), (spare, code, answer)
                assert set(daemon.status()["pipelines"]) == {"cam0"}
                producer.send(whole(spare, SIZE).tobytes())
                assert reader.read(SIZE) == whole(spare, SIZE).tobytes()
                assert not os.path.exists(new["pipelines"]["cam1"]["source"]["socket"]), answer
            resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
            daemon.config = new
            daemon.command("/v1/reload")
        for name in ("cam0", "cam1", "cam2"):
            daemon.wait_view("it runs", lambda view: view["state"] == "running", name)
            with daemon.reader(name) as reader, daemon.producer(name) as producer:
                producer.send(whole(1, SIZE).tobytes())
                assert reader.read(SIZE) == whole(1, SIZE).tobytes()


@pytest.mark.parametrize("kind", ["reply", "socket"])
def test_clients_beside_any_number_of_free_descriptors(place, kind):
    """Each is served or closed, none is left hanging, and what was short comes back."""
    entry = pipeline(FORMAT, **({"sink": {"reply": True}, "source": {"clients": 4}} if kind == "reply" else {}))
    with Daemon(place, {"cam0": entry}) as daemon:
        daemon.status()
        before = daemon.open_files()
        soft, hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
        served = 0
        for spare in range(10):
            resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (before + spare, hard))
            clients = [Client(daemon.path("cam0", "source" if kind == "reply" or number == 0 else "sink"))
                       for number in range(4)]
            try:
                clients[0].send(whole(spare, SIZE).tobytes())
            except OSError:
                pass  # it was closed at once
            clients[0].finish()
            got = clients[0].rest() if kind == "reply" else b""
            assert got in (b"", whole(spare, SIZE).tobytes()) or got.startswith(b"framed: "), got
            served += got == whole(spare, SIZE).tobytes()
            for client in clients:
                client.close()
            resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
            if kind == "socket":
                with daemon.reader() as reader, daemon.producer() as last:
                    last.send(whole(100, SIZE).tobytes())
                    while reader.read(SIZE) != whole(100, SIZE).tobytes():
                        pass  # of one who waited for a descriptor, and whom nobody would read any more
            daemon.wait_view("all have left", lambda view: view["sessions"] == 0 and view["readers"] == 0)
            wait_until(lambda: daemon.open_files() <= before, "descriptors come back")
        assert served > 0 or kind == "socket"


# -- files as sinks --------------------------------------------------------------------------------------------------------


def filter_into(place, data, stdout, size=SIZE, **sink):
    """framed as a filter from a file into the given standard output."""
    (place / "in").write_bytes(data)
    entry = pipeline({"dtype": "uint8", "shape": [size]}, source={"file": str(place / "in")}, sink={"file": "-", **sink})
    return Daemon(place, {"cam0": entry}, stdout=stdout, ready=False)


def test_what_standard_output_was_appended_to_stays(place):
    """`framed >> file`, with a limit of size that fails some results: what was there before is never cut off."""
    before = numbered(2, BIG, first=90).tobytes()
    (place / "out").write_bytes(before)

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (7 * BIG + 100, 7 * BIG + 100))
    with open(place / "out", "ab") as out:
        daemon = filter_into(place, numbered(10, BIG).tobytes(), out, size=BIG)
        daemon.log_file = place / "log"
        daemon.options["preexec_fn"] = limited
        with daemon:
            daemon.ends(0)
    assert (place / "out").read_bytes() == before + numbered(5, BIG).tobytes()
    assert daemon.final_account() == {"in": 10, "emitted": 5, "sink_error": 5}


def test_a_file_that_is_removed_or_renamed_while_it_is_written(place):
    entry = pipeline(FORMAT, sink={"file": str(place / "out")})
    with Daemon(place, {"cam0": entry}) as daemon, daemon.producer() as producer:
        producer.send(numbered(5, SIZE).tobytes())
        daemon.account(came=5, emitted=5)
        os.rename(place / "out", place / "moved")
        producer.send(numbered(5, SIZE, first=5).tobytes())
        daemon.account(came=10, emitted=10)
        os.unlink(place / "moved")
        producer.send(numbered(5, SIZE, first=10).tobytes())
        daemon.account(came=15, emitted=15)


def test_fifo_readers_that_come_and_go_get_whole_results_to_begin_with(place):
    """The first bytes that each gets begin a result, also when the one before it left within one."""
    fifo = place / "out"
    os.mkfifo(fifo)
    with Daemon(place, {"cam0": pipeline(LARGE, sink={"file": str(fifo)}, slots=2)}) as daemon:
        before = daemon.open_files()
        with daemon.producer() as producer:
            sending = Background(producer.send, numbered(30, LARGE_BYTES).tobytes())
            last = -1
            for turn in range(10):
                with open(fifo, "rb", buffering=0) as reader:
                    data = b""
                    while len(data) < LARGE_BYTES + 5000 * turn:
                        data += reader.read(min(1 << 16, LARGE_BYTES + 5000 * turn - len(data)))
                numbers = require_whole(data[:LARGE_BYTES], LARGE_BYTES)
                assert numbers[0] > last, (turn, numbers, last)
                last = numbers[0]
                daemon.wait_view("it is gone", lambda view: view["readers"] == 0)
            with open(fifo, "rb", buffering=0) as reader:
                taking = Background(reader.readall)
                sending.join()
                daemon.account(came=30, emitted=30)
                daemon.finish()
                numbers = require_whole(taking.join(), LARGE_BYTES)
    assert numbers == list(range(numbers[0], 30))



# -- sleeping --------------------------------------------------------------------------------------------------------------


def processor_time_of(daemon, seconds):
    before = daemon.cpu_seconds()
    time.sleep(seconds)
    return daemon.cpu_seconds() - before


def test_nothing_to_do_takes_no_processor(place):
    """Idle, paused, blocked by a reader, without a reader, half-closed, with `spin`: the daemon sleeps."""
    fifo = place / "fifo"
    os.mkfifo(fifo)
    entries = {
        "idle": pipeline(FORMAT, completion="spin"),
        "paused": pipeline(FORMAT, completion="spin"),
        "blocked": pipeline(LARGE, completion="spin"),
        "alone": pipeline(FORMAT, completion="spin"),
        "stalled": pipeline(LARGE, sink={"overload": "drop"}, overload="drop-newest"),
        "reply": pipeline(LARGE, sink={"reply": True}),
        "fifo": pipeline(FORMAT, source={"file": str(fifo)}, sink={"file": str(place / "no-reader")}),
    }
    os.mkfifo(place / "no-reader")
    with Daemon(place, entries, lanes=2, drain_timeout="200ms") as daemon:
        clients = [daemon.producer("idle"), daemon.reader("idle")]
        daemon.command("/v1/pipelines/paused/pause")
        for name in ("paused", "alone"):
            clients.append(daemon.producer(name))
            clients[-1].send(numbered(10, SIZE).tobytes())
            clients[-1].finish()
        for name in ("blocked", "stalled", "reply"):
            producer = daemon.producer(name)
            producer.socket.settimeout(0.5)
            clients.append(producer)
            if name != "reply":
                clients.append(daemon.reader(name, buffer=4096))
                clients[-1].finish()
            try:
                producer.send(numbered(20, LARGE_BYTES).tobytes())
            except TimeoutError:
                pass
        clients[-1].finish()  # of `reply`, which has not read anything
        with open(fifo, "wb", buffering=0) as writer:
            writer.write(numbered(5, SIZE).tobytes())
            used = []
            wait_until(lambda: used.append(processor_time_of(daemon, 2)) or used[-1] < 0.2,
                       lambda: f"nothing is done for two seconds; it takes {used} s of processor time", 10)
        for client in clients:
            client.close()
        daemon.command("/v1/pipelines/paused/resume")
        daemon.leaves_frames = True
