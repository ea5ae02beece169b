"""Readers that attack a sink: they join, stall, send and leave at the worst moments, and no stream may ever be torn."""

import pytest

from harness import Background, Daemon, numbered, pipeline, require_whole

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
