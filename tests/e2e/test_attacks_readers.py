"""Readers that attack a sink: they join, stall, send and leave at the worst moments, and no stream may ever be torn."""

import socket

import pytest

from harness import Background, Daemon, numbered, pipeline, require_whole, wait_until

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
