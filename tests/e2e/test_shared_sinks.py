"""Producers with shared memory whose results go to sinks: what becomes of their slots, and what they are told."""

from harness import Daemon, pipeline, wait_until
from harness.native import BOTH, PRODUCER, Native, Shared

SMALL, LARGE = 32 * 16, 640 * 480
EMITTED, UNREAD = 0, 7


def passing(width=32, height=16, **keys):
    source = {"protocol": "native", **keys.pop("source", {})}
    return pipeline({"pixels": "gray", "width": width, "height": height}, source=source, **keys)


def through(client, count, first=0):
    """Submits frames one by one, and gives the fates that they came back with."""
    fates = []
    for n in range(first, first + count):
        client.submit(n % client.welcome.slots, bytes([n % 256]) * client.welcome.input_bytes, sequence=n)
        fates.append(client.completion()[1])
        client.take()
    return fates


def test_a_slow_reader_under_drop_keeps_no_slot_from_its_producer(place):
    with Daemon(place, {"cam0": passing(640, 480, sink={"overload": "drop"})}) as daemon:
        with daemon.reader(), Shared(daemon.path("cam0", "source"), PRODUCER) as client:
            for n in range(client.welcome.slots):
                client.submit(n, bytes(LARGE), sequence=n)
            for n in range(client.welcome.slots, 50):
                slot = client.completion()[0]
                client.take()
                client.submit(slot, sequence=n)
        daemon.wait_view("every frame has its fate", lambda view: view["frames"]["in"] == 50 and not view["frames"]["in_flight"])
        daemon.settled = True


def test_a_producer_is_told_that_nobody_took_its_frame(place):
    with Daemon(place, {"cam0": passing(sink={"overload": "drop"})}) as daemon:
        with Shared(daemon.path("cam0", "source"), PRODUCER) as client:
            assert through(client, 5) == [UNREAD] * 5
            with daemon.reader() as reader:
                wait_until(lambda: daemon.status()["pipelines"]["cam0"]["readers"] == 1, "the reader is there")
                assert through(client, 5, first=5) == [EMITTED] * 5
                assert reader.read(5 * SMALL) == b"".join(bytes([n]) * SMALL for n in range(5, 10))
        daemon.account(came=10, emitted=5, unread=5)


def test_results_name_the_seat_of_their_session(place):
    entry = passing(source={"clients": 2}, sink={"reply": True, "protocol": "native"})
    with Daemon(place, {"cam0": entry}) as daemon:
        with Native(daemon.path("cam0", "source"), BOTH) as first, Shared(daemon.path("cam0", "source")) as second:
            for n in range(5):
                first.send_frame(b"a" * SMALL, sequence=n)
                result = first.result()
                assert (result.session, result.sequence, result.dropped) == (0, n, 0)
                second.submit(0, b"b" * SMALL, sequence=n)
                _, fate, result = second.completion()
                assert (fate, result.session, result.sequence, result.dropped) == (EMITTED, 1, n, 0)
                second.take()
        daemon.account(came=10, emitted=10)
