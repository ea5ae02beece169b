"""A device that is slower than its camera: every policy, with every number of slots and both completions.

The `fault` stage of test builds makes the device slow: each frame sleeps there.
"""

import numpy as np
import pytest

from harness import Background, Daemon, numbered, pipeline, require_whole, slow_stage, wait_until, whole

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
COUNT = 50
DELAY = slow_stage(20)


@pytest.mark.parametrize("completion", ["callback", "spin"])
@pytest.mark.parametrize("slots", [1, 2, 3, 4, 16])
def test_every_policy_beside_the_others(place, slots, completion):
    keys = {"slots": slots, "completion": completion, "stages": [DELAY]}
    entries = {
        "block": pipeline(FORMAT, **keys),
        "newest": pipeline(FORMAT, overload="drop-newest", **keys),
        "late": pipeline(FORMAT, deadline="5ms", **keys),
    }
    if slots >= 3:
        entries["oldest"] = pipeline(FORMAT, overload="drop-oldest", **keys)
    fates = {"block": None, "newest": "newest", "late": "late", "oldest": "oldest"}

    with Daemon(place, entries, lanes=2) as daemon:
        readers = {name: daemon.reader(name) for name in entries}
        taking = {name: Background(reader.rest) for name, reader in readers.items()}
        producers = {name: daemon.producer(name) for name in entries}
        sending = [Background(producer.send, numbered(COUNT, SIZE).tobytes()) for producer in producers.values()]
        for thread in sending:
            thread.join()
        accounts = {name: daemon.wait_view(
            f"all {COUNT} have their fate",
            lambda view: view["frames"]["in"] == COUNT and view["frames"]["in_flight"] == 0, name)["frames"]
            for name in entries}
        for client in producers.values():
            client.close()
        daemon.finish()
        received = {name: require_whole(thread.join(), SIZE) for name, thread in taking.items()}

    for name, frames in accounts.items():
        fate = fates[name]
        dropped = frames["dropped"][fate] if fate else 0
        assert sum(frames["dropped"].values()) == dropped, (name, frames)
        assert len(received[name]) == frames["emitted"] == COUNT - dropped, (name, frames, received[name])
    assert received["block"] == list(range(COUNT))
    assert accounts["newest"]["dropped"]["newest"] > 0 and received["newest"][0] == 0
    if slots > 1:  # with one slot a frame is only begun once it can be dispatched
        assert accounts["late"]["dropped"]["late"] > 0
    if "oldest" in entries:
        assert accounts["oldest"]["dropped"]["oldest"] > 0 and received["oldest"][-1] == COUNT - 1


@pytest.mark.parametrize("completion", ["callback", "spin"])
def test_results_leave_in_order_where_a_later_frame_is_done_first(place, completion):
    """Every third frame takes long, and those behind it are done long before it."""
    stage = {"fault": {"kind": "delay", "ms": 20, "every": 3}}
    frames = numbered(40, SIZE)
    with Daemon(place, {"cam0": pipeline(FORMAT, slots=4, completion=completion, stages=[stage])}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(frames.tobytes())
            np.testing.assert_array_equal(reader.frames(40, SIZE), frames)
        daemon.account(came=40, emitted=40)


def test_drop_newest_drops_the_frame_that_comes_not_those_that_are_in(place):
    """Results do not leave (no reader, lossless), so that the slots fill up with the first frames."""
    slots = 3
    with Daemon(place, {"cam0": pipeline(FORMAT, overload="drop-newest", slots=slots)}) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(20, SIZE).tobytes())
            frames = daemon.wait_view("all came", lambda view: view["frames"]["in"] == 20 and
                                      view["frames"]["dropped"]["newest"] == 20 - slots)["frames"]
            assert frames["in_flight"] == slots
            with daemon.reader() as reader:
                np.testing.assert_array_equal(reader.frames(slots, SIZE), numbered(slots, SIZE))
        daemon.account(came=20, emitted=slots, newest=20 - slots)


def test_a_dropped_frame_keeps_its_place_in_the_stream(place):
    """A frame that is being discarded when a slot becomes free is discarded to its end."""
    with Daemon(place, {"cam0": pipeline(FORMAT, overload="drop-newest", slots=1)}) as daemon:
        with daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            daemon.wait_view("it fills the slot", lambda view: view["waiting"] == "reader")
            discarded = whole(1, SIZE).tobytes()
            producer.send(discarded[:100])
            daemon.wait_view("the next one has begun", lambda view: view["frames"]["in"] == 2)
            with daemon.reader() as reader:
                np.testing.assert_array_equal(reader.frames(1, SIZE)[0], whole(0, SIZE))
                daemon.wait_view("the slot is free", lambda view: view["frames"]["emitted"] == 1)
                producer.send(discarded[100:] + whole(2, SIZE).tobytes())
                np.testing.assert_array_equal(reader.frames(1, SIZE)[0], whole(2, SIZE))
        daemon.account(came=3, emitted=2, newest=1)


def test_a_frame_that_trickles_in_misses_its_deadline(place):
    """The deadline runs from the first byte, also where the device is idle."""
    with Daemon(place, {"cam0": pipeline(FORMAT, deadline="1ms")}) as daemon:
        with daemon.reader(), daemon.producer() as producer:
            frame = whole(0, SIZE).tobytes()
            producer.send(frame[:1])
            daemon.wait_view("it has begun", lambda view: view["frames"]["in"] == 1)
            begun = daemon.status()["uptime_s"]
            wait_until(lambda: daemon.status()["uptime_s"] > begun + 0.01, "the deadline has passed on the daemon's clock")
            producer.send(frame[1:])
            daemon.account(came=1, late=1)


def test_without_overload_no_policy_drops_anything(place):
    entries = {
        "newest": pipeline(FORMAT, overload="drop-newest", slots=4),
        "oldest": pipeline(FORMAT, overload="drop-oldest", slots=4),
        "late": pipeline(FORMAT, deadline="20s", slots=4),
    }
    with Daemon(place, entries) as daemon:
        for name in entries:
            with daemon.reader(name) as reader, daemon.producer(name) as producer:
                for number in range(50):
                    producer.send(whole(number, SIZE).tobytes())
                    np.testing.assert_array_equal(reader.frames(1, SIZE)[0], whole(number, SIZE))
            daemon.account(name, came=50, emitted=50)
