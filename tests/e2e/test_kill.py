"""A daemon killed without a word under a service manager that keeps what it was given: what goes on is where it was."""

import os
import signal
import socket
import stat

import pytest

from harness import Background, numbered, pipeline, wait_until, whole
from harness.lending import both_ends, lending, receive, send
from harness.native import BOTH, CONSUMER, PRODUCER, Borrower, Native, Shared, frame
from harness.store import Store, connections, leave, settle, start

pytestmark = pytest.mark.memory

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
LARGE = 4 * 1024 * 1024


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
                settle(daemon)  # it may be writing what there is room for now
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
            daemon.wait_view("they wait", lambda view: view["waiting"] == "reader" and view["frames"]["in_flight"] == 3)
            settle(daemon)
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


@pytest.mark.parametrize("reply", [False, True])
def test_a_native_stream_goes_on_at_its_next_byte(place, store, reply):
    """With each frame's number in its result, and acknowledgements where they were."""
    sink = {"reply": True} if reply else {"protocol": "native"}
    with start(place, store, {"cam0": pipeline(FORMAT, source={"protocol": "native"}, sink=sink, slots=3)}) as daemon:
        producer = Native(daemon.path("cam0", "source"), BOTH if reply else PRODUCER, token=7)
        consumer = producer if reply else Native(daemon.path("cam0", "sink"), CONSUMER)
        with producer, consumer:
            messages = [frame(whole(number, SIZE).tobytes(), sequence=number) for number in range(5)]
            data, at = b"".join(messages), 0
            for number in range(4):
                end = (number + 1) * len(messages[0]) + (5, 20, 56, 700)[number]
                producer.send(data[at:end])
                at = end
                result = consumer.result()
                assert (result.sequence, result.payload) == (number, whole(number, SIZE).tobytes())
                assert reply or producer.acknowledged() == number + 1
                settle(daemon)
                store.kill(daemon)
            producer.send(data[at:])
            assert consumer.result().sequence == 4
            assert reply or producer.acknowledged() == 5
        daemon.account(came=5, emitted=5)
        assert connections(daemon) == 0


@pytest.mark.parametrize("role", [PRODUCER, BOTH])
def test_who_shares_memory_goes_on_where_it_was(place, store, role):
    """One frame is submitted while no process is there, one result is held meanwhile."""
    sink = {"reply": True} if role == BOTH else {}
    with start(place, store, {"cam0": pipeline(FORMAT, source={"protocol": "native"}, sink=sink, slots=3)}) as daemon:
        reader = None if role == BOTH else daemon.reader()
        with Shared(daemon.path("cam0", "source"), role) as client:
            client.submit(0, whole(0, SIZE).tobytes(), sequence=0)
            for number in range(1, 7):
                slot, fate, result = client.completion()
                assert fate == 0 and result.sequence == number - 1 and slot == (number - 1) % 3
                settle(daemon)
                store.end(daemon)
                client.submit(number % 3, whole(number, SIZE).tobytes(), sequence=number, ring=False)
                store.start(daemon)
                daemon.wait_ready()
                if role == BOTH:
                    assert client.payload(slot) == whole(number - 1, SIZE).tobytes()
                else:
                    assert reader.read(SIZE) == whole(number - 1, SIZE).tobytes()
                client.take()
                client.ring()
            client.completion()
            client.take()
            client.ring()
            if reader:
                assert reader.read(SIZE) == whole(6, SIZE).tobytes()
                reader.close()
            daemon.account(came=7, emitted=7)
        assert connections(daemon) == 0


def test_who_has_results_lent_goes_on_with_them(place, store):
    with start(place, store, {"cam0": lending()}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer, Native(source, PRODUCER) as producer:
            send(producer, range(2))
            for number in range(2, 8):
                receive(consumer, number - 2)  # and the one behind it is lent, too
                settle(daemon)
                store.kill(daemon)
                consumer.take()
                send(producer, [number])
            receive(consumer, 6)
            receive(consumer, 7)
            consumer.take(2)
            daemon.account(came=8, emitted=8)
        assert connections(daemon) == 0


def test_histograms_go_on(place, store):
    with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon, daemon.reader() as reader, daemon.producer() as producer:
        for number in range(3):
            producer.send(whole(number, SIZE).tobytes())
            assert reader.read(SIZE) == whole(number, SIZE).tobytes()
            settle(daemon)
            counted = f'framed_latency_seconds_count{{pipeline="cam0",step="total"}} {number + 1}\n'
            assert counted in daemon.metrics()
            store.kill(daemon)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_socket_at_which_everything_begins_anew_has_the_rights_of_the_file(place, store, orderly):
    """Not those that the process before had given it."""
    def rights():
        return [stat.S_IMODE(os.stat(daemon.path("cam0", end)).st_mode) for end in ("source", "sink")]
    with start(place, store, {"cam0": pipeline(FORMAT, source={"mode": "0666"}, sink={"mode": "0600"})}, lanes=1) as daemon:
        assert rights() == [0o666, 0o600]
        leave(store, daemon, orderly)
        daemon.write({"cam0": pipeline(FORMAT, source={"mode": "0600"}, sink={"mode": "0660"})}, lanes=2)
        store.start(daemon)
        daemon.wait_ready()
        assert rights() == [0o600, 0o660] and "anew" in daemon.log


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("size", [SIZE, LARGE])
def test_whoever_is_replied_to_goes_on_both_ways(place, store, lanes, size, orderly):
    frames = numbered(6, size)
    entry = pipeline({"dtype": "uint8", "shape": [size]}, source={"clients": 3}, sink={"reply": True}, slots=3)
    with start(place, store, {"cam0": entry}, lanes=lanes, drain_timeout="50ms") as daemon:
        clients = [daemon.producer() for _ in range(3)]
        got = [b""] * 3
        sendings = [Background(client.send, frames.tobytes()) for client in clients]
        for _ in range(3):
            for number, client in enumerate(clients):
                got[number] += client.read(size + 1234 * number)
            settle(daemon)
            leave(store, daemon, orderly)
            store.start(daemon)
            daemon.wait_ready()
            assert "anew" not in daemon.log
        for number, client in enumerate(clients):
            got[number] += client.read(6 * size - len(got[number]))
            sendings[number].join()
            assert got[number] == frames.tobytes()
            client.close()
        assert connections(daemon) == 0
        daemon.account(came=18, emitted=18)


def test_a_slow_reader_under_drop_gets_what_it_is_owed(place, store):
    """The rest of a result whose slot has another frame by now."""
    entry = pipeline({"dtype": "uint8", "shape": [LARGE]}, sink={"overload": "drop"}, slots=3)
    with start(place, store, {"cam0": entry}) as daemon:
        with daemon.reader() as slow, daemon.producer() as producer:
            for number in range(6):
                producer.send(whole(number, LARGE).tobytes())
            daemon.wait_view("all came", lambda view: view["frames"]["in"] == 6)
            daemon.wait_view("it misses some", lambda view: view["missed"] > 0)
            settle(daemon)
            store.kill(daemon)
            first = slow.read(LARGE)
            assert first in [whole(number, LARGE).tobytes() for number in range(6)]
            daemon.wait_view("it has its rest", lambda view: view["frames"]["in_flight"] == 0)
            sending = Background(producer.send, whole(6, LARGE).tobytes())
            assert slow.read(LARGE) == whole(6, LARGE).tobytes()
            sending.join()
        daemon.quiet()
        assert connections(daemon) == 0


# -- where there is not room for all -----------------------------------------------------------------------------------


def connect(daemon):
    client = socket.socket(socket.AF_UNIX)
    client.connect(daemon.path("cam0", "sink"))
    return client


@pytest.mark.takes(200)
def test_a_store_that_is_just_large_enough_is_never_given_more(place):
    """Readers that come while others leave: what the store had no room for would be missed after a kill."""
    with Store(place) as store:
        with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon, daemon.producer():
            readers = [connect(daemon) for _ in range(12)]

            def settled():
                settle(daemon)
                daemon.wait_view("they are there", lambda view: view["readers"] == len(readers))
                settle(daemon)
                store.heard()
            settled()
            wait_until(lambda: store.noted(), "it is noted")
            room = len(store.kept) + 1  # for the image after this one
            store.end(daemon)
            daemon.options["env"]["FDSTORE"] = str(room)
            store.room = room
            store.start(daemon)
            daemon.wait_ready()
            for turn in range(30):
                leaving = 1 + turn % 11
                daemon.signal(signal.SIGSTOP)
                for reader in readers[:leaving]:
                    reader.close()
                readers = readers[leaving:] + [connect(daemon) for _ in range(leaving)]
                daemon.signal(signal.SIGCONT)
                settled()
                assert store.lost == 0, f"turn {turn}: {sorted(store.names)}"
            assert store.noted()
            store.kill(daemon)
            assert connections(daemon) == 0
            for reader in readers:
                reader.close()


def test_listeners_take_the_place_of_connections_where_there_is_not_room_for_both(place):
    """A reload brings more than the store has room for: of what was noted before, connections leave it first."""
    entries = {f"cam{number}": pipeline(FORMAT) for number in range(4)}
    with Store(place) as store:
        with start(place, store, {"cam0": entries["cam0"]}) as daemon, daemon.producer():
            readers = [connect(daemon) for _ in range(4)]
            daemon.wait_view("they are there", lambda view: view["readers"] == len(readers))
            settle(daemon)
            store.heard()
            room = len(store.kept) + 1  # for the image after this one
            store.end(daemon)
            daemon.options["env"]["FDSTORE"] = str(room)
            store.room = room
            store.start(daemon)
            daemon.wait_ready()
            settle(daemon)
            store.heard()
            assert store.noted(), "all of that fits"
            daemon.write(entries)
            daemon.command("/v1/reload")
            wait_until(lambda: not store.noted(), "there is not room for all")
            settle(daemon)
            store.heard()
            assert store.lost == 0, sorted(store.names)
            for reader in readers:
                reader.close()


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
