"""A daemon killed without a word under a service manager that keeps what it was given: what goes on is where it was."""

import os
import random
import signal
import socket
import time

import pytest

from harness import Background, Daemon, Producer, Reader, numbered, pipeline, require_whole, slow_stage, wait_until, whole
from harness.store import Store
from harness.waiting import limit

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
LARGE = 4 * 1024 * 1024
KILLS = 60 if os.environ.get("FRAMED_SOAK") else 6


@pytest.fixture
def store(place):
    with Store(place) as kept:
        yield kept


def start(place, store, pipelines, **keys):
    daemon = Daemon(place, pipelines, env=store.environment, binary=store.program, **keys)
    daemon.leaves_sockets = True
    return daemon


def connections(daemon):
    return daemon.status()["handovers"]["connections_lost"]


# -- where everything stands still -------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("size", [SIZE, LARGE])
def test_a_frame_goes_on_at_its_next_byte(place, store, lanes, size):
    frames = numbered(6, size)
    data = frames.tobytes()
    with start(place, store, {"cam0": pipeline({"dtype": "uint8", "shape": [size]}, slots=3)}, lanes=lanes) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            at = 0
            for number in range(5):
                end = number * size + size + (number * 997) % size
                sending = Background(producer.send, data[at:end])
                assert reader.read(size) == frames[number].tobytes()
                sending.join()
                at = end
                partial = end % size > 0
                daemon.wait_view("all has come", lambda view: view["frames"]["in"] == number + 1 + partial)
                daemon.wait_view("all of it", lambda view: view["frames"]["in_flight"] == partial)
                settle(daemon)
                store.kill(daemon)
            sending = Background(producer.send, data[at:])
            assert reader.read(size) == frames[5].tobytes()
            sending.join()
        daemon.account(came=6, emitted=6)
        assert connections(daemon) == 0
        assert daemon.status()["handovers"]["crash"] == 5


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_result_goes_on_at_its_next_byte(place, store, lanes):
    """Its reader takes a part, and then nothing: nobody writes to it."""
    frames = numbered(5, LARGE)
    with start(place, store, {"cam0": pipeline({"dtype": "uint8", "shape": [LARGE]}, slots=4)}, lanes=lanes) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            sending = Background(producer.send, frames.tobytes())
            got = b""
            for _ in range(4):
                got += reader.read(LARGE // 2 + 4321)
                daemon.wait_view("it waits", lambda view: view["waiting"] == "reader")
                store.kill(daemon)
            got += reader.read(5 * LARGE - len(got))
            sending.join()
            assert got == frames.tobytes()
        daemon.account(came=5, emitted=5)
        assert connections(daemon) == 0


def test_results_that_nobody_has_taken_go_to_whoever_comes(place, store):
    frames = numbered(3, SIZE)
    with start(place, store, {"cam0": pipeline(FORMAT, slots=3)}) as daemon:
        with daemon.producer() as producer:
            producer.send(frames.tobytes())
            daemon.wait_view("they wait", lambda view: view["waiting"] == "reader")
            store.kill(daemon)
            with daemon.reader() as reader:
                assert reader.read(3 * SIZE) == frames.tobytes()
        daemon.account(came=3, emitted=3)


@pytest.mark.parametrize("cut", [3, 40, 60, 64, 70, 5000])
def test_y4m_goes_on_within_its_lines(place, store, cut):
    width, height = 64, 64
    frames = numbered(3, width * height)
    header = b"YUV4MPEG2 W64 H64 F30:1 Ip A1:1 Cmono XANY=LONGER-THAN-IT-HAS-TO-BE\n"
    stream = header + b"".join(b"FRAME\n" + frame.tobytes() for frame in frames)
    entry = pipeline({"pixels": "gray", "width": width, "height": height}, source={"protocol": "y4m"}, sink={"protocol": "y4m"})
    with start(place, store, {"cam0": entry}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(stream[:cut])
            daemon.wait_view("it is there", lambda view: view["sessions"] == 1)
            settle(daemon)
            store.kill(daemon)
            producer.send(stream[cut:])
            line = reader.socket.makefile("rb").readline()
            assert line.startswith(b"YUV4MPEG2 W64 H64")
            daemon.account(came=3, emitted=3)
        assert connections(daemon) == 0


def settle(daemon):
    """The daemon has done what there is to do."""
    for _ in range(2):
        before = daemon.cpu_seconds()
        wait_until(lambda: daemon.status(), "it answers")
        time.sleep(0.05 if daemon.cpu_seconds() - before < 0.02 else 0.2)


def test_a_file_goes_into_a_file_as_if_nothing_had_been(place, store):
    frames = numbered(400, SIZE)
    (place / "in").write_bytes(frames.tobytes())
    entry = pipeline(FORMAT, source={"file": str(place / "in"), "rate": 400}, sink={"file": str(place / "out")}, slots=3)
    keep = pipeline(FORMAT)  # or the daemon would end with its file
    with start(place, store, {"file": entry, "cam0": keep}) as daemon:
        for number in range(1, 5):
            daemon.wait_view("it is written", lambda view: view["frames"]["emitted"] > 60 * number, "file")
            store.kill(daemon)
        daemon.account("file", came=400, emitted=400)
        assert daemon.status()["handovers"]["crash"] == 4
    assert (place / "out").read_bytes() == frames.tobytes()


def test_what_is_paused_stays_paused_and_who_waits_waits(place, store):
    with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(2, SIZE).tobytes())
            assert reader.read(2 * SIZE) == numbered(2, SIZE).tobytes()
            daemon.command("/v1/pipelines/cam0/pause")
            producer.send(numbered(2, SIZE, first=2).tobytes())
            settle(daemon)
            store.kill(daemon)
            view = daemon.view()
            assert view["state"] == "paused" and view["frames"]["in"] == 2, view
            daemon.command("/v1/pipelines/cam0/resume")
            assert reader.read(2 * SIZE) == numbered(2, SIZE, first=2).tobytes()
        daemon.account(came=4, emitted=4)


def test_several_pipelines_and_readers_go_on_together(place, store):
    entries = {f"cam{number}": pipeline(FORMAT, slots=2 + number % 3) for number in range(5)}
    with start(place, store, entries) as daemon:
        readers = {name: [daemon.reader(name) for _ in range(3)] for name in entries}
        producers = {name: daemon.producer(name) for name in entries}
        for round_ in range(4):
            for name in entries:
                frames = numbered(2, SIZE, first=2 * round_).tobytes()
                producers[name].send(frames)
                for reader in readers[name]:
                    assert reader.read(2 * SIZE) == frames
            settle(daemon)
            store.kill(daemon)
        assert connections(daemon) == 0
        for name in entries:
            for client in (producers[name], *readers[name]):
                client.close()
            daemon.account(name, came=8, emitted=8)


def test_a_pipeline_of_clients_that_come_back_begins_anew_at_its_sockets(place, store):
    entries = {"cam0": pipeline(FORMAT), "native": pipeline(FORMAT, source={"protocol": "native"})}
    with start(place, store, entries) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer, daemon.reader("native") as gone:
            producer.send(whole(0, SIZE).tobytes()[:100])
            daemon.wait_view("it has begun", lambda view: view["frames"]["in"] == 1)
            settle(daemon)
            store.end(daemon)
            with socket.socket(socket.AF_UNIX) as early:
                early.connect(daemon.path("native", "sink"))
                store.start(daemon)
                daemon.wait_ready()
                assert gone.rest() == b""
                daemon.wait_view("it waited", lambda view: view["readers"] == 1, "native")
            producer.send(whole(0, SIZE).tobytes()[100:])
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()
        assert connections(daemon) == 1


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("size", [SIZE, LARGE])
def test_whoever_is_replied_to_goes_on_both_ways(place, store, lanes, size):
    frames = numbered(6, size)
    entry = pipeline({"dtype": "uint8", "shape": [size]}, source={"clients": 3}, sink={"reply": True}, slots=3)
    with start(place, store, {"cam0": entry}, lanes=lanes) as daemon:
        clients = [daemon.producer() for _ in range(3)]
        got = [b""] * 3
        sendings = [Background(client.send, frames.tobytes()) for client in clients]
        for _ in range(3):
            for number, client in enumerate(clients):
                got[number] += client.read(size + 1234 * number)
            settle(daemon)
            store.kill(daemon)
        for number, client in enumerate(clients):
            got[number] += client.read(6 * size - len(got[number]))
            sendings[number].join()
            assert got[number] == frames.tobytes()
            client.close()
        assert connections(daemon) == 0
        daemon.account(came=18, emitted=18)


# -- where something is lost -------------------------------------------------------------------------------------------


def test_a_slow_reader_under_drop_whose_rest_is_gone_is_cut_off(place, store):
    """The rest of its result was in memory of the process, and no other reader minds."""
    entry = pipeline({"dtype": "uint8", "shape": [LARGE]}, sink={"overload": "drop"}, slots=3)
    with start(place, store, {"cam0": entry}) as daemon:
        with daemon.reader() as slow, daemon.producer() as producer:
            for number in range(6):
                producer.send(whole(number, LARGE).tobytes())
            daemon.wait_view("all came", lambda view: view["frames"]["in"] == 6)
            daemon.wait_view("it misses some", lambda view: view["missed"] > 0)
            settle(daemon)
            store.kill(daemon)
            slow.rest()
            slow.close()
            assert "cut off" in daemon.log
            with daemon.reader() as reader:
                producer.send(whole(6, LARGE).tobytes())
                assert reader.read(LARGE) == whole(6, LARGE).tobytes()
        daemon.quiet()
        assert connections(daemon) == 1


def test_without_room_for_all_only_listeners_are_kept(place):
    with Store(place, room=8) as store:
        with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
            with daemon.reader() as one, daemon.reader() as two, daemon.producer():
                settle(daemon)
                store.kill(daemon)
                assert one.rest() == two.rest() == b""
            assert store.lost == 0 and connections(daemon) == 3
            with daemon.reader() as reader, daemon.producer() as producer:
                producer.send(whole(0, SIZE).tobytes())
                assert reader.read(SIZE) == whole(0, SIZE).tobytes()


# -- under load -----------------------------------------------------------------------------------------------------------


ENTRIES = {
    "plain": lambda size: pipeline({"dtype": "uint8", "shape": [size]}, slots=3),
    "two slots, spinning": lambda size: pipeline({"dtype": "uint8", "shape": [size]}, completion="spin"),
    "drop": lambda size: pipeline({"dtype": "uint8", "shape": [size]}, slots=4, sink={"overload": "drop"}),
    "drop-oldest": lambda size: pipeline({"dtype": "uint8", "shape": [size]}, slots=4, overload="drop-oldest",
                                         stages=[slow_stage(2)]),
    "drop-newest": lambda size: pipeline({"dtype": "uint8", "shape": [size]}, slots=3, overload="drop-newest",
                                         stages=[slow_stage(2)]),
    "deadline": lambda size: pipeline({"dtype": "uint8", "shape": [size]}, slots=3, deadline="2ms", stages=[slow_stage(2)]),
}


class Stream:
    """A producer and a reader that come again when they are cut off. Results are whole, and on a connection they rise."""

    def __init__(self, daemon, size):
        self.daemon, self.size, self.stopped = daemon, size, False
        self.sent, self.got = 0, 0
        self.clients = {}
        self.threads = [Background(self.produce), Background(self.read)]

    def again(self, client, path, use):
        """Whoever comes while no daemon is there waits at its socket."""
        while not self.stopped:
            with client(path) as self.clients[client]:
                try:
                    use(self.clients[client])
                except (OSError, EOFError):
                    pass

    def produce(self):
        self.again(Producer, self.daemon.path("cam0", "source"), self.send_on)

    def read(self):
        self.again(Reader, self.daemon.path("cam0", "sink"), self.read_on)

    def send_on(self, producer):
        while not self.stopped:
            frame = whole(self.sent, self.size)
            self.sent += 1
            producer.send(frame.tobytes())

    def read_on(self, reader):
        last = -1
        while not self.stopped:
            (number,) = require_whole(reader.read(self.size), self.size)
            assert number > last, f"{number} after {last}"
            last = number
            self.got += 1

    def stop(self):
        """The reader takes what there is until the producer has gone."""
        self.stopped = True
        for client in (Producer, Reader):
            try:
                self.clients[client].socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join()


@pytest.mark.takes(120)
@pytest.mark.parametrize("size", [SIZE, 256 * 1024])
@pytest.mark.parametrize("kind", ENTRIES)
def test_no_result_is_torn_or_shifted_under_load(place, store, kind, size):
    chance = random.Random(kind + str(size))
    with start(place, store, {"cam0": ENTRIES[kind](size)}, lanes=2) as daemon:
        stream = Stream(daemon, size)
        for _ in range(KILLS):
            before = stream.got
            wait_until(lambda: stream.got > before or stream.threads[1].done, "results flow")
            time.sleep(chance.random() / 50)
            store.kill(daemon)
        stream.stop()
        with daemon.reader() as reader:
            resting = Background(reader.rest)
            daemon.quiet()
            reader.socket.shutdown(socket.SHUT_RDWR)
            resting.join()
        assert daemon.status()["handovers"]["crash"] == KILLS and "anew" not in daemon.log


class Replied(Stream):
    """The same on one connection."""

    def __init__(self, daemon, size):
        self.daemon, self.size, self.stopped = daemon, size, False
        self.sent, self.got = 0, 0
        self.clients = {}
        self.threads = [Background(self.again, Producer, daemon.path("cam0", "source"), self.both)]

    def both(self, client):
        sending = Background(self.try_to_send, client)
        try:
            self.read_on(client)
        finally:
            try:
                client.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sending.join()

    def try_to_send(self, client):
        try:
            self.send_on(client)
        except OSError:
            pass

    def stop(self):
        self.stopped = True
        try:
            self.clients[Producer].socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.threads[0].join()


@pytest.mark.takes(120)
@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("size", [SIZE, LARGE])
def test_no_answer_is_torn_or_shifted_under_load(place, store, lanes, size):
    chance = random.Random(size + lanes)
    entry = pipeline({"dtype": "uint8", "shape": [size]}, source={"clients": 2}, sink={"reply": True}, slots=3)
    with start(place, store, {"cam0": entry}, lanes=lanes) as daemon:
        streams = [Replied(daemon, size), Replied(daemon, size)]
        for _ in range(KILLS):
            before = [stream.got for stream in streams]
            wait_until(lambda: all(stream.got > got or stream.threads[0].done for stream, got in zip(streams, before)),
                       "results flow")
            time.sleep(chance.random() / 50)
            store.kill(daemon)
        for stream in streams:
            stream.stop()
        daemon.quiet()
        assert daemon.status()["handovers"]["crash"] == KILLS and "anew" not in daemon.log


# -- kills that meet something else ---------------------------------------------------------------------------------------


def test_a_kill_after_an_upgrade_and_an_upgrade_after_a_kill(place, store):
    with start(place, store, {"cam0": pipeline(FORMAT, slots=3)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            for number in range(4):
                producer.send(whole(2 * number, SIZE).tobytes() + whole(2 * number + 1, SIZE).tobytes()[:50])
                assert reader.read(SIZE) == whole(2 * number, SIZE).tobytes()
                daemon.wait_view("a part is there", lambda view: view["frames"]["in"] == 2 * number + 2)
                if number % 2 == 0:
                    handovers = daemon.status()["handovers"]["fault"]
                    daemon.signal(signal.SIGUSR2)
                    wait_until(lambda: daemon.status()["handovers"]["upgrade"] == number // 2 + 1, "it has taken over", 30)
                    assert daemon.status()["handovers"]["fault"] == handovers
                settle(daemon)
                store.kill(daemon)
                producer.send(whole(2 * number + 1, SIZE).tobytes()[50:])
                assert reader.read(SIZE) == whole(2 * number + 1, SIZE).tobytes()
        daemon.account(came=8, emitted=8)
        assert connections(daemon) == 0


def test_a_kill_after_a_gpu_fault(place, store):
    entry = pipeline(FORMAT, slots=3, stages=[{"fault": {"kind": "illegal", "at": 2, "again": "no"}}])
    with start(place, store, {"cam0": entry}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(4, SIZE).tobytes())
            assert reader.read(4 * SIZE) == numbered(4, SIZE).tobytes()
            settle(daemon)
            store.kill(daemon)
            assert daemon.status()["handovers"]["fault"] == 1
            assert connections(daemon) == 0


def test_a_reload_and_then_a_kill(place, store):
    with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            daemon.write({"cam0": pipeline(FORMAT), "cam1": pipeline(FORMAT)})
            daemon.command("/v1/reload")
            with daemon.reader("cam1") as other:
                producer.send(whole(0, SIZE).tobytes()[:7])
                daemon.wait_view("it has begun", lambda view: view["frames"]["in"] == 1)
                settle(daemon)
                store.kill(daemon)
                producer.send(whole(0, SIZE).tobytes()[7:])
                assert reader.read(SIZE) == whole(0, SIZE).tobytes()
                with daemon.producer("cam1") as second:
                    second.send(whole(1, SIZE).tobytes())
                    assert other.read(SIZE) == whole(1, SIZE).tobytes()
        assert connections(daemon) == 0
        assert daemon.log.count("configuration reloaded") == 1  # it was over


def test_a_kill_at_any_time_of_a_start(place, store):
    """Before it is ready a process has taken what lay there, and keeps it no longer: connections may go, but nothing else."""
    with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
        for number in range(10):
            with daemon.reader(), daemon.producer():
                store.end(daemon)
                store.start(daemon)
                time.sleep(number * 0.002)
                store.kill(daemon)
        with daemon.reader() as reader, daemon.producer() as producer:
            daemon.wait_view("they are there", lambda view: view["readers"] == 1 and view["sessions"] == 1)
            producer.send(whole(0, SIZE).tobytes())
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()


def test_a_kill_within_an_orderly_end_leaves_nothing_that_is_older(place, store):
    """Both kinds of an end lie there: what the later one says counts, also at the kill after it."""
    with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            for number in range(3):  # so that its last roster has a higher number than the first of the next process
                with daemon.reader():
                    daemon.wait_view("it is there", lambda view: view["readers"] == 2)
                daemon.wait_view("it has gone", lambda view: view["readers"] == 1)
            store.heard()
            older = [(name, os.dup(descriptor)) for name, descriptor in store.kept if not name.startswith("framed-carried-")]
            assert {name.split("-")[1] for name, _ in older} == {"roster", "journal", "pulse"}
            daemon.signal(signal.SIGTERM)
            daemon.process.wait(limit(20))
            store.heard()
            assert "framed-state" in store.names
            store.kept += older
            store.start(daemon)
            daemon.wait_ready()
            store.kill(daemon)
            producer.send(whole(0, SIZE).tobytes())
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()
        assert connections(daemon) == 0 and "anew" not in daemon.log


@pytest.mark.parametrize("reply", [False, True])
def test_a_roster_that_is_behind_brings_nobody_back(place, store, reply):
    """A producer was sent away in mid-frame and another one came, and the kill was before the roster said so: what the first one
    sends on is no frame."""
    entry = pipeline(FORMAT, source={"timeout": "3s"}, sink={"reply": True} if reply else {})
    with start(place, store, {"cam0": entry}) as daemon:
        with daemon.producer() as first:
            first.send(whole(0, SIZE).tobytes()[:100])
            daemon.wait_view("it has begun", lambda view: view["frames"]["in"] == 1)
            store.heard()
            before = [(name, os.dup(descriptor)) for name, descriptor in store.kept]
            assert daemon.view()["sessions"] == 1
            daemon.wait_view("it was sent away", lambda view: view["sessions"] == 0)
            first.socket.send(whole(0, SIZE).tobytes()[100:] + whole(1, SIZE).tobytes()[:100])
            with daemon.producer() as second:
                second.send(whole(2, SIZE).tobytes()[:10])
                daemon.wait_view("another one came", lambda view: view["frames"]["in"] == 2)
                settle(daemon)
                store.end(daemon)
            store.clear()
            store.kept = before
            store.start(daemon)
            daemon.wait_ready()
            assert daemon.view()["frames"]["in"] == 2 and "anew" not in daemon.log
        daemon.account(came=2, invalid=2)


# -- a memory that is not to be believed ----------------------------------------------------------------------------------


def spoil(descriptor, chance):
    """Changes bytes where there are some."""
    data = [at for at in range(0, os.fstat(descriptor).st_size, 4096) if os.pread(descriptor, 4096, at).strip(b"\0")]
    for _ in range(chance.choice([1, 1, 4, 64])):
        at = chance.choice(data) + chance.randrange(4096)
        os.pwrite(descriptor, bytes([chance.randrange(256)]), at)


@pytest.mark.takes(200)
@pytest.mark.parametrize("what", ["framed-roster-", "chronicle", "framed-journal", "framed-pulse"])
def test_what_is_damaged_costs_connections_at_most(place, store, what):
    chance = random.Random(what)
    with start(place, store, {"cam0": pipeline(FORMAT, slots=3)}) as daemon:
        for _ in range(KILLS * 2):
            with daemon.reader() as reader, daemon.producer() as producer:
                producer.send(numbered(2, SIZE).tobytes() + b"part")
                assert reader.read(2 * SIZE) == numbered(2, SIZE).tobytes()
                settle(daemon)
                store.end(daemon)
                for descriptor in damaged(store, what):
                    spoil(descriptor, chance)
                store.start(daemon)
                daemon.wait_ready()
            with daemon.reader() as reader, daemon.producer() as producer:
                daemon.wait_view("they are there", lambda view: view["readers"] == 1 and view["sessions"] == 1)
                producer.send(whole(5, SIZE).tobytes())
                assert reader.read(SIZE) == whole(5, SIZE).tobytes()


@pytest.mark.parametrize("last", [-1, -2**63, 2**63 - 1])
def test_a_pulse_that_cannot_have_been_costs_nothing(place, store, last):
    with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            for number in range(2):  # the second one sees what the first one made of it
                producer.send(whole(number, SIZE).tobytes())
                assert reader.read(SIZE) == whole(number, SIZE).tobytes()
                settle(daemon)
                store.end(daemon)
                (pulse,) = store.named("framed-pulse")
                if number == 0:
                    os.pwrite(pulse, last.to_bytes(8, "little", signed=True), 0)
                store.start(daemon)
                daemon.wait_ready()
                assert 0 <= daemon.status()["handovers"]["last"]["gap_ms"] < 60000
        daemon.account(came=2, emitted=2)
        assert connections(daemon) == 0 and "anew" not in daemon.log


def test_what_may_be_torn_is_known_until_it_is_looked_after(place, store):
    """A file that was written when what was noted is damaged is cut back; one that comes by a reload is somebody else's."""
    entries = {"cam0": pipeline(FORMAT, sink={"file": str(place / "out")})}
    with start(place, store, entries) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(2, SIZE).tobytes())
            daemon.account(came=2, emitted=2)
            settle(daemon)
            store.end(daemon)
            for descriptor in damaged(store, "chronicle"):
                os.pwrite(descriptor, b"other", 0)
            with open(place / "out", "ab") as out:
                out.write(b"torn")
            store.start(daemon)
            daemon.wait_ready()
        assert "anew" in daemon.log and (place / "out").read_bytes() == numbered(2, SIZE).tobytes()
        (place / "other").write_bytes(b"of somebody")
        daemon.write({**entries, "cam1": pipeline(FORMAT, sink={"file": str(place / "other")})})
        status, answer = daemon.post("/v1/reload")
        assert status == 400 and "ends within a result" in answer["error"]
        assert (place / "other").read_bytes() == b"of somebody"


def damaged(store, what):
    if what != "chronicle":
        return store.named(what)
    return [fd for _, fd in store.kept if "framed:chronicle" in os.readlink(f"/proc/self/fd/{fd}")]


def test_a_manager_that_is_slow_to_forget_is_waited_for(place):
    """As long as it has the listening sockets, too, they look like those of another daemon."""
    with Store(place) as store:
        with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
            with daemon.reader() as reader, daemon.producer():
                settle(daemon)
                store.end(daemon)
                for descriptor in damaged(store, "chronicle"):
                    os.pwrite(descriptor, b"other", 0)
                store.pace = 0.03
                store.start(daemon)
                daemon.wait_ready()
                assert reader.rest() == b"" and "anew" in daemon.log
                store.pace = 0


@pytest.mark.parametrize("size", [None, SIZE, 4 * SIZE])
def test_memory_that_is_gone_or_of_another_size_costs_connections_at_most(place, store, size):
    with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            settle(daemon)
            store.end(daemon)
            arenas = [kept for kept in store.kept if ":in" in os.readlink(f"/proc/self/fd/{kept[1]}")]
            assert arenas
            for name, descriptor in arenas:
                store.kept.remove((name, descriptor))
                os.close(descriptor)
                if size is not None:
                    store.kept.append((name, other_memory(size)))
            store.start(daemon)
            daemon.wait_ready()
            assert reader.rest() == producer.rest() == b""
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(whole(5, SIZE).tobytes())
            assert reader.read(SIZE) == whole(5, SIZE).tobytes()


def other_memory(size):
    descriptor = os.memfd_create("other")
    os.truncate(descriptor, size)
    return descriptor
