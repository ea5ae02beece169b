"""How it ends for consumers with shared memory: with their memory, their pipeline or the daemon, or by what they do themselves.

Nobody else loses or spoils anything by that.
"""

import contextlib
import fcntl
import mmap
import os
import random
import signal
import socket
import time

import pytest

from harness import Background, Daemon, wait_until
from harness import native
from harness.lending import SIZE, both_ends, frame_of, lending, receive, result_of, send
from harness.native import CONSUMER, PRODUCER, Borrower, Native, Refused, Shared

# -- ends ------------------------------------------------------------------------------------------------------------------------


def test_memory_that_is_made_anew_is_lent_anew(place):
    """The next producer with shared memory has other memory, and whoever reads is told to come again."""
    with Daemon(place, {"cam0": lending()}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer:
            with Shared(source, PRODUCER) as first:
                first.submit(0, frame_of(0), sequence=0)
                receive(consumer, 0)
                consumer.take()
            with Shared(source, PRODUCER) as second:
                second.submit(0, frame_of(1), sequence=1)
                with pytest.raises(Refused, match="other memory") as refused:
                    while True:
                        consumer.hear()
                assert refused.value.code == native.E_STOPPING and consumer.lent() == 0
                with Borrower(sink) as again:
                    receive(again, 1)
                    again.take()
                    assert second.completion()[1] == 0
        daemon.account(came=2, emitted=2)


def test_it_is_told_that_the_pipeline_stops(place):
    with Daemon(place, {"cam0": lending()}, drain_timeout="200ms") as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer, Native(source, PRODUCER) as producer:
            send(producer, range(2))
            receive(consumer, 0)
            consumer.take()
            receive(consumer, 1)
            wait_until(lambda: daemon.view()["frames"]["emitted"] == 1, "one is taken")
            daemon.signal(signal.SIGTERM)
            with pytest.raises(Refused, match="cam0 is stopping") as refused:
                while True:
                    consumer.hear()
            assert refused.value.code == native.E_STOPPING and consumer.lent() == 0
            daemon.ends(0)
            assert daemon.final_account() == {"in": 2, "emitted": 1, "shutdown": 1}


def test_the_end_of_a_sink_is_the_end_of_the_connection(place):
    with Daemon(place, {"cam0": lending()}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer, Native(source, PRODUCER) as producer:
            send(producer, [0])
            receive(consumer, 0)
            consumer.take()
            daemon.account(came=1, emitted=1)
            daemon.signal(signal.SIGTERM)
            with pytest.raises(EOFError):
                while True:
                    consumer.hear()
            daemon.ends(0)


def test_a_drain_waits_for_what_is_held(place):
    with Daemon(place, {"cam0": lending()}) as daemon:
        source, sink = both_ends(daemon)
        with Borrower(sink) as consumer, Native(source, PRODUCER) as producer:
            send(producer, range(2))
            receive(consumer, 0)
            wait_until(lambda: daemon.status()["pipelines"]["cam0"]["frames"]["in"] == 2, "the second frame is taken")
            draining = Background(daemon.command, "/v1/pipelines/cam0/drain")
            receive(consumer, 1)
            time.sleep(0.3)
            assert not draining.done
            consumer.take(2)
            draining.join()
        daemon.account(came=2, emitted=2)


# -- what is not trusted ---------------------------------------------------------------------------------------------------------


def take_what_was_not_lent(consumer, chance):
    consumer.word(64, chance.choice([1000, 0x80000000, 0xFFFFFFFF, consumer.taken + 17]))


def scribble(consumer, chance):
    consumer.control[:] = chance.randbytes(len(consumer.control))


def talk(consumer, chance):
    consumer.send(chance.choice([b"\1", b"FRMD", native.hello(CONSUMER, 1), native.frame(b"x" * SIZE)]))


def half_close(consumer, chance):
    consumer.socket.shutdown(chance.choice([socket.SHUT_WR, socket.SHUT_RD, socket.SHUT_RDWR]))


def ring_on_and_on(consumer, _chance):
    consumer.socket.settimeout(0.1)
    for _ in range(20):
        consumer.send(bytes(1 << 15))


def leave(consumer, _chance):
    consumer.close()


def say_urgently(consumer, _chance):
    consumer.socket.send(b"\0", socket.MSG_OOB)


def flicker(consumer, chance):
    for _ in range(200):
        consumer.word(128, chance.randrange(2))
        consumer.word(4096 + 64, chance.randrange(2))


ACTS = [take_what_was_not_lent, scribble, talk, half_close, ring_on_and_on, leave, say_urgently, flicker]


@pytest.mark.parametrize("overload", ["block", "drop"])
@pytest.mark.parametrize("act", ACTS)
def test_whatever_one_does_another_gets_its_results(place, act, overload):
    with Daemon(place, {"cam0": lending(slots=4, overload=overload)}, lanes=1) as daemon:
        source, sink = both_ends(daemon)
        chance, n = random.Random(act.__name__), 0
        with Native(sink, CONSUMER) as good, Native(source, PRODUCER) as producer:
            for _ in range(6):
                with Borrower(sink) as bad:
                    daemon.wait_view("both are there", lambda view: view["readers"] == 2)
                    send(producer, [n])
                    assert good.result().payload == result_of(n)
                    if chance.random() < 0.7:
                        receive(bad, n)
                    with contextlib.suppress(OSError):
                        act(bad, chance)
                n += 1
                for _ in range(3):
                    send(producer, [n])
                    assert good.result().payload == result_of(n)
                    n += 1
                daemon.wait_view("it has left", lambda view: view["readers"] == 1)
        daemon.account(came=n, emitted=n)


def test_nothing_can_be_written_or_resized(place):
    with Daemon(place, {"cam0": lending()}) as daemon, Borrower(daemon.path("cam0", "sink")) as consumer:
        with pytest.raises(PermissionError):
            mmap.mmap(consumer.descriptors[0], SIZE)
        with pytest.raises(OSError):
            os.write(consumer.descriptors[0], b"x")
        for descriptor in consumer.descriptors:
            for size in (0, 1 << 30):
                with pytest.raises(OSError):
                    os.ftruncate(descriptor, size)
            with pytest.raises(OSError):
                fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)


def test_they_leave_nothing_behind(place):
    with Daemon(place, {"cam0": lending(slots=4)}) as daemon:
        source, sink = both_ends(daemon)
        daemon.status()
        before = daemon.open_files()
        with Native(source, PRODUCER) as producer:
            for n in range(50):
                with Borrower(sink) as consumer:
                    if n % 2:
                        send(producer, [n])
                        receive(consumer, n)
                        consumer.take()
        wait_until(lambda: daemon.open_files() <= before, lambda: f"{before} descriptors before, {daemon.open_files()} now")
        daemon.account(came=25, emitted=25)
