"""A kill that meets damage: what was noted is not to be believed, is gone, or is of another version or size."""

import contextlib
import os
import random
import socket

import pytest

from harness import numbered, pipeline, wait_until, whole
from harness.store import (PAGE, STATE, Store, be_of_another_version, connections, copy, disown, leave, place_of, settle, start,
                           written_pages)
from harness.waiting import limit

pytestmark = pytest.mark.memory

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
KILLS = 60 if os.environ.get("FRAMED_SOAK") else 6


def spoil(descriptor, chance, first=0, last=None):
    """Changes bytes where there are some."""
    data = [at for at in written_pages(descriptor) if first <= at < (last or at + 1) and os.pread(descriptor, 4096, at).strip(b"\0")]
    for _ in range(chance.choice([1, 1, 4, 64])):
        at = chance.choice(data) + chance.randrange(4096)
        os.pwrite(descriptor, bytes([chance.randrange(256)]), at)


@pytest.mark.takes(200)
@pytest.mark.parametrize("what", [STATE, None])
def test_what_is_damaged_costs_connections_at_most(place, store, what):
    chance = random.Random(f"{what}")
    with start(place, store, {"cam0": pipeline(FORMAT, slots=3)}) as daemon:
        for _ in range(KILLS):
            with daemon.reader() as reader, daemon.producer() as producer:
                producer.send(numbered(2, SIZE).tobytes() + b"part")
                assert reader.read(2 * SIZE) == numbered(2, SIZE).tobytes()
                settle(daemon)
                store.end(daemon)
                for image in store.named("framed-image-"):
                    first = place_of(image, what) if what else 0
                    assert first or not what
                    spoil(image, chance, first, first + PAGE if what else None)
                store.start(daemon)
                daemon.wait_ready()
            with daemon.reader() as reader, daemon.producer() as producer:
                daemon.wait_view("they are there", lambda view: view["readers"] == 1 and view["sessions"] == 1)
                producer.send(whole(5, SIZE).tobytes())
                assert reader.read(SIZE) == whole(5, SIZE).tobytes()


@pytest.mark.parametrize("orderly", [False, True])
def test_what_another_version_left_is_let_go_of(place, store, orderly):
    """Its connections end, its sockets serve, and nothing of it takes up room."""
    with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()
            settle(daemon)
            leave(store, daemon, orderly)
            for image in store.named("framed-image-"):
                be_of_another_version(image)
            store.start(daemon)
            daemon.wait_ready()
            assert reader.rest() == b"" and "anew" in daemon.log
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(whole(1, SIZE).tobytes())
            assert reader.read(SIZE) == whole(1, SIZE).tobytes()
            settle(daemon)
            leave(store, daemon, True)  # also what was taken over from there is left to the next one
            store.start(daemon)
            daemon.wait_ready()
            producer.send(whole(2, SIZE).tobytes())
            assert reader.read(SIZE) == whole(2, SIZE).tobytes()


@pytest.mark.parametrize("last", [-1, -2**63, 2**63 - 1])
def test_a_pulse_that_cannot_have_been_costs_nothing(place, store, last):
    with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            for number in range(2):  # the second one sees what the first one made of it
                producer.send(whole(number, SIZE).tobytes())
                assert reader.read(SIZE) == whole(number, SIZE).tobytes()
                settle(daemon)
                store.end(daemon)
                (image,) = store.named("framed-image")
                if number == 0:
                    os.pwrite(image, last.to_bytes(8, "little", signed=True), 4096)
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
            for image in store.named("framed-image-"):
                disown(image)
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


@pytest.mark.parametrize("protocol, begun", [("raw", {"dtype": "uint8", "shape": [SIZE + 1]}), ("y4m", FORMAT)])
@pytest.mark.parametrize("damage", [False, True])
def test_a_file_with_results_of_another_size_is_not_cut_where_everything_begins_anew(place, store, protocol, begun, damage):
    """What looks torn to the next process may be whole results of the one before."""
    pixels = {"pixels": "gray", "width": 64, "height": SIZE // 64}
    out = {"file": str(place / "out"), "protocol": protocol}
    with start(place, store, {"cam0": pipeline(pixels, sink=dict(out))}, lanes=1) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(3, SIZE).tobytes())
            daemon.account(came=3, emitted=3)
        settle(daemon)
        store.end(daemon)
        before = (place / "out").read_bytes()
        daemon.write({"cam0": pipeline(begun, sink={"file": str(place / "out")})}, lanes=1 if damage else 2)
        for image in store.named("framed-image-") if damage else []:
            disown(image)
        store.start(daemon)
        daemon.wait_view("it waits", lambda view: "ends within a result of this format" in (view["waits_for"] or ""))
        assert (place / "out").read_bytes() == before


def test_a_cut_is_said_to_be_a_guess_where_nobody_knows_of_what_size_results_were(place, store):
    """There was no memory for the state."""
    with start(place, store, {"cam0": pipeline(FORMAT, sink={"file": str(place / "out")})}) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(2, SIZE).tobytes())
            daemon.account(came=2, emitted=2)
        settle(daemon)
        store.end(daemon)
        with open(place / "out", "ab") as out:
            out.write(b"torn")
        for image in store.named("framed-image-"):
            disown(image)
            os.pwrite(image, bytes(8), STATE)
        store.start(daemon)
        daemon.wait_ready()
        assert "were a partial result (assuming that results had their current size" in daemon.log
    assert (place / "out").read_bytes() == numbered(2, SIZE).tobytes()


def answers_at(address):
    with contextlib.suppress(OSError), socket.create_connection(address, timeout=limit(20)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: framed\r\nConnection: close\r\n\r\n")
        return client.recv(64).startswith(b"HTTP/1.1 200")
    return False


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("moves", [False, True])
def test_an_address_is_listened_at_again_where_everything_begins_anew(place, store, moves, orderly):
    """What listens there lies in the store. Another address of the same port is free a little later."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    keys = {"status": {"socket": str(place / "status.sock"), "http": f"127.0.0.1:{port}"}}
    with start(place, store, {"cam0": pipeline(FORMAT)}, **keys) as daemon:
        settle(daemon)
        assert answers_at(("127.0.0.1", port))
        leave(store, daemon, orderly)
        for image in store.named("framed-image-"):
            be_of_another_version(image)
        if moves:
            token = place / "token"
            token.write_text("0123456789abcdef")
            daemon.write({"cam0": pipeline(FORMAT)}, status={**keys["status"], "http": f"0.0.0.0:{port}", "token": str(token)})
        store.start(daemon)
        daemon.wait_ready()
        assert "anew" in daemon.log
        wait_until(lambda: answers_at(("127.0.0.1", port)), "it is listened at")


def test_a_fifo_gives_no_shifted_frame_where_everything_begins_anew(place, store):
    """Its writer is still there, in the middle of a frame of which nobody knows any more."""
    os.mkfifo(place / "in")
    entry = pipeline(FORMAT, source={"file": str(place / "in")}, sink={"file": str(place / "out")})
    with start(place, store, {"cam0": entry, "cam1": pipeline(FORMAT)}) as daemon:
        with open(place / "in", "wb", buffering=0) as writer:
            writer.write(whole(0, SIZE).tobytes() + whole(1, SIZE).tobytes()[:100])
            daemon.wait_view("a part is there", lambda view: view["frames"]["in"] == 2 and view["frames"]["emitted"] == 1)
            settle(daemon)
            store.end(daemon)
            for image in store.named("framed-image-"):
                disown(image)
            store.start(daemon)
            daemon.wait_ready()
            writer.write(whole(1, SIZE).tobytes()[100:] + whole(2, SIZE).tobytes())
        daemon.wait_log("closed the FIFO")
        with open(place / "in", "wb", buffering=0) as writer:
            writer.write(whole(3, SIZE).tobytes())
            daemon.account(came=1, emitted=1)
    assert (place / "out").read_bytes() == whole(0, SIZE).tobytes() + whole(3, SIZE).tobytes()


def test_a_manager_that_is_slow_to_forget_is_waited_for(place):
    """As long as it has the listening sockets, too, they look like those of another daemon."""
    with Store(place) as store:
        with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
            with daemon.reader() as reader, daemon.producer():
                settle(daemon)
                store.end(daemon)
                for image in store.named("framed-image-"):
                    disown(image)
                store.pace = 0.03
                store.start(daemon)
                daemon.wait_ready()
                assert reader.rest() == b"" and "anew" in daemon.log
                store.pace = 0


@pytest.mark.parametrize("size", [None, SIZE, 4 * SIZE])
def test_memory_that_is_gone_or_of_another_size_costs_connections_at_most(place, store, size):
    with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader(), daemon.producer() as producer:
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
            assert producer.rest() == b""
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(whole(5, SIZE).tobytes())
            assert reader.read(SIZE) == whole(5, SIZE).tobytes()


def other_memory(size):
    descriptor = os.memfd_create("other")
    os.truncate(descriptor, size)
    moved = copy(descriptor)
    os.close(descriptor)
    return moved
