"""Consumers with shared memory: results are lent to them where they lie and stay so while they are held, upgrades or not.

How that ends is in test_shared_consumers_ends.py.
"""

import collections
import contextlib
import itertools
import random
import select
import signal
import threading
import time

import pytest

from harness import BACKEND, Background, Daemon, pipeline, wait_until
from harness import native
from harness.lending import GRAY, INVERT, INVERTED, SIZE, both_ends, frame_of, lending, receive, result_of, send
from harness.native import CONSUMER, PRODUCER, Borrower, Native, NotLent, Refused, Shared


def send_until(over, producer):
    """How many."""
    for n in itertools.count():
        if over.is_set():
            return n
        send(producer, [n])


def test_a_sink_on_a_lane_of_its_own_lends_too(place):
    """As lossless sinks of large results are."""
    large = {"pixels": "gray", "width": 1024, "height": 1024}
    frames = [random.Random(n).randbytes(1 << 20) for n in range(20)]
    with Daemon(place, {"cam0": pipeline(large, stages=[INVERT], slots=3, source={"protocol": "native"},
                                         sink={"protocol": "native", "overload": "block"})}, lanes=2) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer, Native(source, PRODUCER) as producer:
            sending = Background(lambda: [producer.send_frame(frame) for frame in frames])
            for frame in frames:
                assert consumer.result()[1].payload == frame.translate(INVERTED)
                if consumer.seen % 3 == 0:
                    consumer.take(3)
            consumer.take(consumer.seen - consumer.taken)
            sending.join()
        daemon.account(came=20, emitted=20)


@pytest.mark.parametrize("completion", ["callback", "spin"])
def test_results_are_lent_in_their_order(place, completion):
    with Daemon(place, {"cam0": lending(completion=completion)}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer, Native(source, PRODUCER) as producer:
            assert consumer.welcome.transport == 1 and consumer.welcome.output_bytes == SIZE and consumer.welcome.slots == 3
            sending = Background(send, producer, range(200))
            for n in range(200):
                receive(consumer, n)
                consumer.take()
            sending.join()
            wait_until(lambda: daemon.view()["frames"]["emitted"] == 200, "all are taken")
        daemon.account(came=200, emitted=200)


def test_what_is_held_is_nobody_elses(place):
    """All slots are held: the pipeline waits for the reader, and nothing is written over."""
    with Daemon(place, {"cam0": lending(slots=3)}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer, Native(source, PRODUCER) as producer:
            sending = Background(send, producer, range(12))
            slots = [receive(consumer, n) for n in range(3)]
            assert sorted(slots) == [0, 1, 2]
            view = daemon.wait_view("it waits", lambda view: view["waiting"] == "reader")
            assert view["frames"]["emitted"] == 0 and consumer.lent() == 0
            assert [consumer.payload(slot) for slot in slots] == [result_of(n) for n in range(3)]
            consumer.take(2)
            assert [receive(consumer, n) for n in (3, 4)] == slots[:2]
            assert consumer.payload(slots[2]) == result_of(2)
            for n in range(5, 12):
                consumer.take()
                receive(consumer, n)
            consumer.take(3)
            sending.join()
        daemon.account(came=12, emitted=12)


def test_from_shared_memory_to_shared_memory(place):
    """No byte of a frame passes through the daemon."""
    with Daemon(place, {"cam0": lending(slots=4)}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer, Shared(source, PRODUCER) as producer:
            for n in range(100):
                producer.submit(producer.free.pop(0), frame_of(n), sequence=n)
                slot = receive(consumer, n)
                assert producer.word(4096) == n  # not done: it is lent
                consumer.take()
                assert producer.completion()[:2] == (slot, 0)
                producer.take()
                producer.free.append(slot)
        daemon.account(came=100, emitted=100)


def test_consumers_of_all_kinds_get_everything(place):
    with Daemon(place, {"cam0": lending(slots=4)}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as one, Borrower(sink) as other, Native(sink, CONSUMER) as stream, Native(source, PRODUCER) as producer:
            daemon.wait_view("they are there", lambda view: view["readers"] == 3)
            sending = Background(send, producer, range(50))
            for n in range(50):
                assert stream.result().payload == result_of(n)
                assert receive(one, n) == receive(other, n)
                one.take()
                other.take()
            sending.join()
        daemon.account(came=50, emitted=50)


def test_a_consumer_that_sleeps_is_rung_for(place):
    with Daemon(place, {"cam0": lending()}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer, Native(source, PRODUCER) as producer:
            for n in range(20):
                sleeping = Background(consumer.sleep)
                time.sleep(0.01)
                send(producer, [n])
                sleeping.join()
                receive(consumer, n)
                consumer.take()
        daemon.account(came=20, emitted=20)


def test_the_next_gets_what_the_last_did_not_take(place):
    with Daemon(place, {"cam0": lending(slots=4)}) as daemon:
        source, sink = both_ends(daemon)
        with Native(source, PRODUCER) as producer:
            with Borrower(sink) as first:
                send(producer, range(4))
                for n in range(4):
                    receive(first, n)
                first.take(2)
                wait_until(lambda: daemon.view()["frames"]["emitted"] == 2, "two are taken")
            daemon.wait_view("it has left", lambda view: view["readers"] == 0)
            with Borrower(sink) as second:
                for n in (2, 3):
                    receive(second, n)
                    second.take()
                send(producer, [4])
                receive(second, 4)
                second.take()
        daemon.account(came=5, emitted=5)


def test_who_takes_and_leaves_has_taken(place):
    with Daemon(place, {"cam0": lending(slots=4)}) as daemon:
        source, sink = both_ends(daemon)
        with Native(source, PRODUCER) as producer:
            for n in range(30):
                with Borrower(sink) as consumer:
                    send(producer, [n])
                    receive(consumer, n)
                    consumer.word(64, 1)  # without a doorbell
        daemon.account(came=30, emitted=30)


# -- where results may be missed -------------------------------------------------------------------------------------------------


def test_one_that_holds_a_result_keeps_the_others_from_nothing(place):
    with Daemon(place, {"cam0": lending(slots=4, overload="drop")}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as slow, Native(sink, CONSUMER) as quick, Native(source, PRODUCER) as producer:
            daemon.wait_view("they are there", lambda view: view["readers"] == 2)
            send(producer, [0])
            held = receive(slow, 0)
            assert quick.result().payload == result_of(0)
            for n in range(1, 60):
                send(producer, [n])
                assert quick.result().payload == result_of(n)
            assert slow.payload(held) == result_of(0)
            assert slow.lent() == 1  # of four slots two are lent at most
            second = receive(slow, 1)
            assert slow.payload(second) == result_of(1)
            slow.take(2)
            send(producer, [60])
            _, late = slow.result()
            assert late.payload == result_of(late.sequence) and late.sequence > 40
            assert late.dropped == late.sequence - 2  # frames 0 and 1 are those that it had
            assert quick.result().sequence == 60
            slow.take()
            wait_until(lambda: daemon.view()["missed"] > 40, "what it missed is counted")
        daemon.account(came=61, emitted=61)


def is_told(consumer):
    """Whether there is something to hear on its connection."""
    return bool(select.select([consumer.socket], [], [], 0)[0])


def test_one_that_holds_a_wanted_slot_for_long_has_to_go(place):
    """The result stays what it is for the second which the daemon gives it; it may change while the word of it is on its way."""
    with Daemon(place, {"cam0": lending(slots=2, overload="drop")}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer, Native(source, PRODUCER) as producer:
            send(producer, [0])
            held = receive(consumer, 0)
            time.sleep(1.5)
            assert consumer.lent() == 0 and daemon.view()["readers"] == 1  # nobody wants it
            over, began = threading.Event(), time.monotonic()
            sending = Background(send_until, over, producer)
            while not is_told(consumer):
                if consumer.payload(held) != result_of(0):
                    wait_until(lambda: is_told(consumer), "what was taken back is told of")
                time.sleep(0.01)
            assert time.monotonic() - began > 0.9
            with pytest.raises(Refused, match="held a result for more than 1000 ms") as refused:
                while True:
                    consumer.hear()
            assert refused.value.code == native.E_TIMEOUT
            over.set()
            came = 1 + sending.join()
        daemon.account(came=came, unread=came)


def test_one_may_hold_a_slot_that_is_wanted_no_more(place):
    with Daemon(place, {"cam0": lending(slots=2, overload="drop")}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer, Native(source, PRODUCER) as producer:
            daemon.wait_view("it is there", lambda view: view["readers"] == 1)
            send(producer, range(50))
            held = receive(consumer, 0)
            wait_until(lambda: daemon.view()["frames"]["dropped"]["unread"] == 49, "the others are through")
            time.sleep(2)
            assert consumer.payload(held) == result_of(0) and daemon.view()["readers"] == 1
            consumer.take()
        daemon.account(came=50, emitted=1, unread=49)


@pytest.mark.parametrize("others", [0, 1])
def test_one_that_stops_reading_does_not_stall_a_producer_that_limits_itself(place, others):
    """It sends its next frame once the one before has its fate, and leaves all other slots alone."""
    with Daemon(place, {"cam0": lending(slots=4, overload="drop", source={"timeout": "300ms"})}) as daemon:
        source, sink = both_ends(daemon)
        with contextlib.ExitStack() as stack:
            consumer, producer = stack.enter_context(Borrower(sink)), stack.enter_context(Shared(source, PRODUCER))
            quick = [stack.enter_context(Native(sink, CONSUMER)) for _ in range(others)]
            daemon.wait_view("they are there", lambda view: view["readers"] == 1 + others)
            producer.submit(0, frame_of(0))
            assert [reader.result().payload for reader in quick] == [result_of(0)] * others
            receive(consumer, 0)
            assert producer.completion()[:2] == (0, 0 if quick else 7)  # emitted, or unread
            with pytest.raises(Refused, match="held a result for more than 1000 ms"):
                consumer.hear()
        daemon.account(came=1, emitted=others, unread=1 - others)


def test_stalled_ones_do_not_keep_the_next_producer_from_its_memory(place):
    with Daemon(place, {"cam0": lending(slots=3, overload="drop")}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer:
            with Shared(source, PRODUCER) as first:
                first.submit(0, frame_of(0))
                receive(consumer, 0)
            with Shared(source, PRODUCER) as second:
                second.submit(0, frame_of(1))
                second.completion()
        daemon.leaves_frames = True


@pytest.mark.parametrize("keys", [{"slots": 1}, {"slots": 3, "newest_of": "drop-oldest"}])
def test_where_nothing_can_be_lent_the_connection_carries_results(place, keys):
    """Under `drop` the session needs a slot to go on with."""
    entry = lending(slots=keys["slots"], overload="drop")
    entry["overload"] = keys.get("newest_of", "block")
    with Daemon(place, {"cam0": entry}) as daemon:
        source, sink = both_ends(daemon)
        with pytest.raises(NotLent), Borrower(sink):
            pass
        with Native(source, PRODUCER) as producer, native.Client(sink) as consumer:
            consumer.send(native.hello(CONSUMER, transport=1))
            assert consumer.read(16 + 256)[24:28] == b"\0\0\0\0"
            daemon.wait_view("it is there", lambda view: view["readers"] == 1)
            send(producer, [0])
            assert consumer.read(16 + 80 + SIZE)[96:] == result_of(0)
        daemon.account(came=1, emitted=1)


# -- another process image ---------------------------------------------------------------------------------------------------------


def hand_over(daemon, count=1):
    before = daemon.status()["handovers"]["upgrade"]
    for n in range(count):
        daemon.signal(signal.SIGUSR2)
        wait_until(lambda: daemon.status()["handovers"]["upgrade"] == before + n + 1, lambda: daemon.log, 30)


@pytest.mark.parametrize("overload", ["block", "drop"])
def test_what_is_held_stays_held_over_an_upgrade(place, overload):
    with Daemon(place, {"cam0": lending(slots=4, overload=overload)}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer, Borrower(sink) as other, Native(source, PRODUCER) as producer:
            daemon.wait_view("they are there", lambda view: view["readers"] == 2)
            send(producer, range(2))
            slots = [receive(consumer, n) for n in range(2)]
            assert [receive(other, n) for n in range(2)] == slots
            other.take()
            hand_over(daemon, 2)
            assert [consumer.payload(slot) for slot in slots] == [result_of(n) for n in range(2)]
            other.take()
            consumer.take(2)
            for n in range(2, 40):
                send(producer, [n])
                receive(consumer, n)
                receive(other, n)
                consumer.take()
                other.take()
            assert daemon.status()["handovers"]["connections_lost"] == 0
        daemon.account(came=40, emitted=40)


def test_what_was_set_aside_stays_so_over_an_upgrade(place):
    with Daemon(place, {"cam0": lending(slots=3, overload="drop")}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer, Native(sink, CONSUMER) as quick, Native(source, PRODUCER) as producer:
            daemon.wait_view("they are there", lambda view: view["readers"] == 2)
            for n in range(4):
                send(producer, [n])
                assert quick.result().payload == result_of(n)
            held = receive(consumer, 0)
            hand_over(daemon)
            taking = Background(lambda: [quick.result().payload for _ in range(30)])
            send(producer, range(4, 34))
            assert taking.join() == [result_of(n) for n in range(4, 34)]
            assert consumer.payload(held) == result_of(0)
            consumer.take()
            daemon.wait_view("it missed the others", lambda view: view["missed"] > 20)
        daemon.account(came=34, emitted=34)


def test_a_stream_of_results_goes_through_faults_and_upgrades(place):
    fault = {"fault": {"kind": "illegal", "at": 20, "every": 50, "again": "no"}}
    entry = pipeline(GRAY, stages=[fault, INVERT], source={"protocol": "native"}, slots=3,
                     sink={"protocol": "native", "overload": "block"})
    with Daemon(place, {"cam0": entry}, gpu={"backend": BACKEND, "faults": "60/min"}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer, Native(source, PRODUCER) as producer:
            sending = Background(send, producer, range(200))
            held = collections.deque()
            for n in range(200):
                held.append((receive(consumer, n), n))
                while len(held) > n % 3:
                    slot, number = held.popleft()
                    assert consumer.payload(slot) == result_of(number)
                    consumer.take()
            consumer.take(len(held))
            sending.join()
            assert daemon.status()["handovers"]["fault"] >= 2
        daemon.account(came=200, emitted=200)
