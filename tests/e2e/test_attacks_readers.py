"""Readers that attack a sink: they join, stall, send and leave at the worst moments, and no stream may ever be torn."""

import json
import os
import select
import socket
import time
from contextlib import ExitStack

import pytest

from harness import Background, Client, Daemon, complete, numbered, pipeline, require_whole, run_framed, wait_until
from harness.lending import lending
from harness.native import CONSUMER, E_QUOTA, Borrower, Native, Refused

LARGE_BYTES = 256 << 10
LARGE = {"dtype": "uint8", "shape": [LARGE_BYTES]}


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_reader_takes_what_the_only_other_one_left(place, slots):
    """With `block`: it joined while another was within a result, which then leaves without having taken it."""
    with Daemon(place, {"cam0": pipeline(LARGE, slots=slots)}) as daemon:
        with daemon.producer() as producer:
            leaves = daemon.reader(buffer=4096)
            sending = Background(producer.send, numbered(12, LARGE_BYTES).tobytes())
            daemon.wait_view("it waits for the reader", lambda view: view["waiting"] == "reader")
            with daemon.reader() as stays:
                leaves.close()
                rest = Background(stays.rest)
                sending.join()
                daemon.wait_view("all came", lambda view: view["frames"]["in"] == 12)
                daemon.account(came=12, emitted=12)
                daemon.finish()
                numbers = require_whole(rest.join(), LARGE_BYTES)
    assert numbers == list(range(numbers[0], 12)), numbers


def test_readers_that_half_close_and_leave_are_missed_at_once(place):
    """As `socat -u` does it, and while no result is sent that would show that they are gone."""
    with Daemon(place, {"cam0": pipeline(LARGE, sink={"overload": "drop"})}) as daemon:
        before = daemon.open_files()
        for urgent in (False, True, False):
            with daemon.reader() as reader:
                if urgent:
                    reader.socket.send(b"!", socket.MSG_OOB)
                reader.finish()
            daemon.wait_view("it is gone", lambda view: view["readers"] == 0)
        wait_until(lambda: daemon.open_files() <= before, "their descriptors are closed")


# -- limits ----------------------------------------------------------------------------------------------------------------


def crowd(stack, daemon, count, **options):
    return [stack.enter_context(Client(daemon.path("cam0", "sink"), **options)) for _ in range(count)]


def wait_readers(daemon, count):
    daemon.wait_view(f"{count} readers are there", lambda view: view["readers"] == count)


def test_one_user_has_so_many_readers(place):
    """32 by default: the others are told, and have a place when one has left."""
    entry = pipeline(LARGE, sink={"overload": "drop"})
    with ExitStack() as stack, Daemon(place, {"cam0": entry}) as daemon:
        readers = crowd(stack, daemon, 40)
        daemon.wait_view("8 are refused", lambda view: view["refused"] == 8 and view["readers"] == 32)
        told = f"framed: user {os.geteuid()} already has its 32 readers\n".encode()
        assert [reader.rest() for reader in readers[32:]] == [told] * 8
        assert "raise `limits`" in daemon.view()["last_refusal"]["remedy"]
        assert daemon.metrics().count('framed_refused_clients_total{pipeline="cam0"} 8\n') == 1
        readers[0].close()
        wait_readers(daemon, 31)
        crowd(stack, daemon, 1)
        wait_readers(daemon, 32)


@pytest.mark.parametrize("overload,least", [("drop", LARGE_BYTES), ("block", 0)])
def test_readers_count_against_memory_with_what_they_may_need(place, overload, least):
    """Under `drop` a result for each; also after an upgrade, when they have it already."""
    entry = pipeline(LARGE, sink={"overload": overload}, slots=2)
    limits = {"memory_per_user": "768KiB"}  # what is before a result needs some, too
    with ExitStack() as stack, Daemon(place, {"cam0": entry}, limits=limits) as daemon:
        crowd(stack, daemon, 2)
        wait_readers(daemon, 2)
        for turn in range(2):
            with Client(daemon.path("cam0", "sink")) as one_more:
                if least:
                    assert b"would take" in one_more.rest() and daemon.view()["readers"] == 2, turn
                else:
                    wait_readers(daemon, 3)
            wait_readers(daemon, 2)
            daemon.post("/v1/upgrade")
            wait_until(lambda turn=turn: daemon.status()["handovers"]["upgrade"] == turn + 1, "it goes on as another process")


def test_a_native_reader_too_many_is_told_so(place):
    with Daemon(place, {"cam0": lending()}, limits={"readers_per_user": 1}) as daemon:
        with Borrower(daemon.path("cam0", "sink")):
            for kind in (Borrower, lambda path: Native(path, CONSUMER)):
                with pytest.raises(Refused, match="already has its 1 reader") as refused:
                    kind(daemon.path("cam0", "sink"))
                assert refused.value.code == E_QUOTA
        wait_readers(daemon, 0)
        with Borrower(daemon.path("cam0", "sink")):
            pass


def test_readers_that_take_nothing_have_memory_for_a_few_results_only(place):
    """Beside them others get whole results; who takes nothing while another needs its place is sent away."""
    entry = pipeline(LARGE, sink={"overload": "drop", "slow_readers": 2}, slots=4)
    with ExitStack() as stack, Daemon(place, {"cam0": entry}) as daemon:
        stalled = crowd(stack, daemon, 6, buffer=4096)
        wait_readers(daemon, 6)
        with daemon.producer() as producer:
            producer.send(numbered(20, LARGE_BYTES).tobytes())
            daemon.wait_view("they came", lambda view: view["frames"]["in"] == 20)
            [fast] = crowd(stack, daemon, 1)
            wait_readers(daemon, 7)
            getting = Background(fast.read, LARGE_BYTES)
            number = 20
            while not getting.done:
                producer.send(numbered(1, LARGE_BYTES, first=number).tobytes())
                number += 1
                time.sleep(0.02)
            assert require_whole(getting.join(), LARGE_BYTES)
            daemon.wait_log("took no byte of a result for more than 1000 ms while others needed the room for its rest")
        for reader in stalled:
            reader.close()
        fast.close()
        daemon.leaves_frames = True


def test_slow_readers_beyond_their_number_miss_results_and_are_not_torn(place):
    """They take turns; each that goes on reading, however slowly, gets whole results and stays."""
    entry = pipeline(LARGE, sink={"overload": "drop", "slow_readers": 1}, slots=4)
    with ExitStack() as stack, Daemon(place, {"cam0": entry}) as daemon:
        readers = crowd(stack, daemon, 3, buffer=4096)
        wait_readers(daemon, 3)
        got = [bytearray() for _ in readers]
        with daemon.producer() as producer:
            for number in range(200):
                producer.send(numbered(1, LARGE_BYTES, first=number).tobytes())
                for reader, data in zip(readers, got):
                    if select.select([reader.socket], [], [], 0)[0]:
                        data += reader.socket.recv(40000)
            view = daemon.wait_view("they came", lambda view: view["frames"]["in"] == 200, seconds=60)
            assert view["readers"] == 3 and view["missed"] > 0, view
        rests = [Background(reader.rest) for reader in readers]
        daemon.finish()
        for rest, data in zip(rests, got):
            require_whole(bytes(data) + rest.join(), LARGE_BYTES)


def test_what_slow_readers_may_take_is_said_beforehand(place):
    text = complete(place, {"cam0": pipeline(LARGE, sink={"overload": "drop", "slow_readers": 4}), "cam1": pipeline(LARGE)})
    (place / "framed.yaml").write_text(json.dumps(text))
    table = run_framed("-c", place / "framed.yaml", "--check").stdout
    cam0, cam1 = (next(line for line in table.splitlines() if line.startswith(name)) for name in ("cam0", "cam1"))
    assert "SLOW READERS" in table and cam0.endswith("1.0 MiB") and cam1.endswith("0 bytes"), table
