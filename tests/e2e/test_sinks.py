"""Readers of all tempers: many, late, slow, stalled, leaving; and `reply`."""

import errno
import itertools
import signal
import threading

import numpy as np
import pytest

from harness import Background, Daemon, numbered, pipeline, require_whole, wait_until, whole
from harness.injection import Injection

SMALL = {"dtype": "uint8", "shape": [512]}
LARGE_BYTES = 256 << 10
LARGE = {"dtype": "uint8", "shape": [LARGE_BYTES]}


def test_every_reader_gets_every_result(place):
    frames = numbered(100, 512)
    with Daemon(place, {"cam0": pipeline(SMALL)}) as daemon:
        readers = [daemon.reader() for _ in range(20)]
        taking = [Background(reader.frames, 100, 512) for reader in readers]
        with daemon.producer() as producer:
            producer.send(frames.tobytes())
        for thread in taking:
            np.testing.assert_array_equal(thread.join(), frames)
        daemon.account(came=100, emitted=100)
        for reader in readers:
            reader.close()
        daemon.wait_view("all readers are gone", lambda view: view["readers"] == 0)


@pytest.mark.host
@pytest.mark.parametrize("error", [errno.ENOBUFS, errno.ENOMEM], ids=errno.errorcode.get)
@pytest.mark.parametrize("sink", [{}, {"overload": "drop"}, {"reply": True}], ids=["block", "drop", "reply"])
def test_no_memory_for_its_bytes_costs_no_reader(place, sink, error):
    """The system may have none for a moment, though there is room: the rest comes a little later."""
    injection = Injection(place, "sendmsg", at=1, error=error)
    with Daemon(place, {"cam0": pipeline(SMALL, sink=sink)}, env=injection.environment) as daemon:
        with daemon.producer() as producer:
            reader = producer if "reply" in sink else daemon.reader()
            daemon.wait_view("somebody reads", lambda view: view["readers"] == 1)
            producer.send(whole(0, 512).tobytes())
            assert reader.read(512) == whole(0, 512).tobytes() and injection.happened
        daemon.account(came=1, emitted=1)


def test_without_reader_results_are_unread(place):
    with Daemon(place, {"cam0": pipeline(SMALL, sink={"overload": "drop"})}) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(30, 512).tobytes())
            daemon.account(came=30, unread=30)


@pytest.mark.parametrize("count", [1, 6])  # its rest is in a slot, or in the reader's own buffer
@pytest.mark.parametrize("how", ["stop", "reload"])
def test_a_slow_reader_may_take_the_rest_of_its_result_before_the_end(place, count, how):
    size = 4 << 20
    entry = pipeline({"dtype": "uint8", "shape": [size]}, sink={"overload": "drop"})
    with Daemon(place, {"cam0": entry}, drain_timeout="60s") as daemon:
        with daemon.reader() as fast, daemon.reader(buffer=4096) as slow:
            taking = Background(fast.rest)
            daemon.wait_view("both are there", lambda view: view["readers"] == 2)
            with daemon.producer() as producer:
                for number in range(count):
                    producer.send(whole(number, size).tobytes())
                    daemon.wait_view("the fast one took it", lambda view: view["frames"]["emitted"] == number + 1)
            daemon.wait_view("the producer left", lambda view: view["sessions"] == 0)
            begun = slow.read(1000)
            if how == "stop":
                daemon.signal(signal.SIGTERM)
                daemon.wait_log("finishing")
            else:
                daemon.write({}, drain_timeout="60s")
                reloading = Background(daemon.post, "/v1/reload")
                daemon.wait_view("the reload has begun", lambda view: view["state"] == "stopping")
            assert require_whole(begun + slow.rest(), size)[0] == 0
            assert len(taking.join()) == count * size
            if how == "reload":
                assert reloading.join()[0] == 200
            else:
                daemon.ends(0)


def test_a_reader_that_stalls_within_a_result_is_cut_off_at_the_limit(place):
    entry = pipeline(LARGE, sink={"overload": "drop"})
    with Daemon(place, {"cam0": entry}, drain_timeout="300ms") as daemon:
        with daemon.reader() as fast, daemon.reader(buffer=4096):
            taking = Background(fast.rest)
            daemon.wait_view("both are there", lambda view: view["readers"] == 2)
            with daemon.producer() as producer:
                producer.send(whole(0, LARGE_BYTES).tobytes())
            daemon.account(came=1, emitted=1)
            daemon.signal(signal.SIGTERM)
            daemon.ends(0)
            assert len(taking.join()) == LARGE_BYTES


def test_a_late_reader_starts_at_the_next_result(place):
    with Daemon(place, {"cam0": pipeline(SMALL, sink={"overload": "drop"})}) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(7, 512).tobytes())
            daemon.account(came=7, unread=7)
            with daemon.reader() as reader:
                frames = numbered(5, 512, first=7)
                producer.send(frames.tobytes())
                np.testing.assert_array_equal(reader.frames(5, 512), frames)
                daemon.account(came=12, unread=7, emitted=5)


def collect(reader, received):
    """Appends whatever the reader gets until its end."""
    while part := reader.socket.recv(1 << 20):
        received += part


def numbers_of(received, size):
    """The numbers of the whole frames among these bytes."""
    frames = np.frombuffer(bytes(received[:len(received) // size * size]), np.uint8).reshape(-1, size)
    return frames[:, :8].copy().view(np.uint64)[:, 0]


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_stalled_reader_misses_whole_results_and_delays_nobody(place, slots):
    """With `drop`: the fast reader gets all, the stalled one a part, and never a torn result."""
    entry = pipeline(LARGE, sink={"overload": "drop"}, slots=slots)
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as fast, daemon.reader(buffer=4096) as stalled, daemon.producer() as producer:
            for number in range(30):  # one by one, so that the fast reader never is the slow one
                producer.send(whole(number, LARGE_BYTES).tobytes())
                np.testing.assert_array_equal(fast.frames(1, LARGE_BYTES)[0], whole(number, LARGE_BYTES))
            view = daemon.wait_view("all have their fate", lambda view: view["frames"]["emitted"] == 30)
            assert view["missed"] > 0, view

            # Once it reads again it gets the rest of what it had begun, and then whole new results.
            received = bytearray()
            catching_up, fast_rest = Background(collect, stalled, received), Background(fast.rest)
            for number in itertools.count(30):
                if any(numbers_of(received, LARGE_BYTES)[-1:] >= 30):
                    break
                producer.send(whole(number, LARGE_BYTES).tobytes())
                daemon.wait_view("the new one is through", lambda view: view["frames"]["emitted"] == number + 1)
            wait_until(lambda: len(received) % LARGE_BYTES == 0, "it has the whole of what it began")
            daemon.finish()
            catching_up.join()
            require_whole(fast_rest.join(), LARGE_BYTES)
    numbers = require_whole(bytes(received), LARGE_BYTES)
    assert numbers[0] == 0 and len(numbers) < number, numbers


def test_with_block_the_slowest_reader_sets_the_pace(place):
    """The quick reader cannot run ahead of the slow one by more than what buffers and slots hold."""
    entry = pipeline(LARGE, slots=2)
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as quick, daemon.reader(buffer=4096) as slow, daemon.producer() as producer:
            sending = Background(producer.send, numbered(40, LARGE_BYTES).tobytes())
            taking = Background(quick.frames, 40, LARGE_BYTES)
            view = daemon.wait_view("the pipeline waits", lambda view: view["waiting"] == "reader")
            assert view["frames"]["emitted"] < 20
            np.testing.assert_array_equal(slow.frames(40, LARGE_BYTES), numbered(40, LARGE_BYTES))
            np.testing.assert_array_equal(taking.join(), numbered(40, LARGE_BYTES))
            sending.join()
        daemon.account(came=40, emitted=40)
        assert daemon.view()["missed"] == 0


def test_with_block_a_result_waits_for_a_reader(place):
    with Daemon(place, {"cam0": pipeline(SMALL)}) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(3, 512).tobytes())
            daemon.wait_view("it waits for a reader", lambda view: view["waiting"] == "reader")
            assert daemon.frames()["emitted"] == 0
            with daemon.reader() as reader:
                np.testing.assert_array_equal(reader.frames(3, 512), numbered(3, 512))
            daemon.account(came=3, emitted=3)


@pytest.mark.parametrize("overload", ["drop", "block"])
def test_a_reader_that_leaves_within_a_result(place, overload):
    """Those that stay get every result whole; the account stays complete."""
    with Daemon(place, {"cam0": pipeline(LARGE, sink={"overload": overload})}) as daemon:
        with daemon.reader() as stays, daemon.producer() as producer:
            with daemon.reader(buffer=4096) as leaves:
                sending = Background(producer.send, numbered(20, LARGE_BYTES).tobytes())
                leaves.read(1000)
                taking = Background(stays.frames, 20 if overload == "block" else 1, LARGE_BYTES)
                if overload == "drop":
                    taking.join()
            daemon.wait_view("it is gone", lambda view: view["readers"] == 1)
            if overload == "block":
                np.testing.assert_array_equal(taking.join(), numbered(20, LARGE_BYTES))
                sending.join()
                daemon.account(came=20, emitted=20)
            else:
                rest = Background(stays.rest)
                sending.join()
                daemon.wait_view("all came", lambda view: view["frames"]["in"] == 20)
                daemon.quiet()
                daemon.finish()
                require_whole(rest.join(), LARGE_BYTES)


def test_the_only_reader_leaves_within_a_result_and_another_comes(place):
    """With `block` the frames that nobody took wait for the next reader, which starts with a whole one."""
    with Daemon(place, {"cam0": pipeline(LARGE)}) as daemon:
        with daemon.producer() as producer:
            sending = Background(producer.send, numbered(20, LARGE_BYTES).tobytes())
            with daemon.reader(buffer=4096) as leaves:
                first = leaves.frames(1, LARGE_BYTES)
                np.testing.assert_array_equal(first, numbered(1, LARGE_BYTES))
                leaves.read(1000)
            daemon.wait_view("it is gone", lambda view: view["readers"] == 0)
            with daemon.reader() as reader:
                rest = Background(reader.rest)
                sending.join()
                frames = daemon.wait_view(
                    "all are accounted for",
                    lambda view: view["frames"]["in"] == 20 and view["frames"]["in_flight"] == 0)["frames"]
                daemon.finish()
                numbers = require_whole(rest.join(), LARGE_BYTES)
    assert numbers[-1] == 19 and numbers == list(range(numbers[0], 20)), numbers
    assert frames["emitted"] + frames["dropped"]["unread"] == 20, frames
    assert frames["emitted"] >= len(numbers) + 1, (numbers, frames)


def test_readers_that_come_and_go_never_see_half_a_result(place):
    """Readers connect at any moment, take a few results and leave, beside a constant stream."""
    stop = threading.Event()

    def produce(producer):
        for number in itertools.count():
            if stop.is_set():
                return number
            producer.send(whole(number, 4096).tobytes())

    entry = pipeline({"dtype": "uint8", "shape": [4096]}, sink={"overload": "drop"})
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.producer() as producer:
            sending = Background(produce, producer)
            for _ in range(30):
                with daemon.reader() as reader:
                    require_whole(reader.read(3 * 4096), 4096)
            stop.set()
            sent = sending.join()
            frames = daemon.wait_view("all came", lambda view: view["frames"]["in"] == sent)["frames"]
            daemon.quiet()
            assert frames["emitted"] >= 3


def test_what_a_reader_sends_does_no_harm(place):
    with Daemon(place, {"cam0": pipeline(SMALL)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            reader.send(b"GET / HTTP/1.0\r\n\r\n")
            producer.send(numbered(5, 512).tobytes())
            np.testing.assert_array_equal(reader.frames(5, 512), numbered(5, 512))
        daemon.account(came=5, emitted=5)


def test_a_reader_that_shut_its_writing_side_down_leaves_unseen_by_nobody(place):
    with Daemon(place, {"cam0": pipeline(SMALL)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            reader.finish()
            producer.send(numbered(5, 512).tobytes())
            np.testing.assert_array_equal(reader.frames(5, 512), numbered(5, 512))
        daemon.wait_view("it is gone", lambda view: view["readers"] == 0)
        daemon.account(came=5, emitted=5)


# -- reply ---------------------------------------------------------------------------------------------------------------


def test_reply_answers_each_frame_on_its_connection(place):
    with Daemon(place, {"cam0": pipeline(SMALL, sink={"reply": True})}) as daemon:
        with daemon.producer() as client:
            for number in range(50):
                client.send(whole(number, 512).tobytes())
                assert client.read(512) == whole(number, 512).tobytes()
        daemon.account(came=50, emitted=50)


def test_reply_to_a_client_that_has_finished_writing(place):
    with Daemon(place, {"cam0": pipeline(SMALL, sink={"reply": True})}) as daemon:
        with daemon.producer() as client:
            client.send(numbered(20, 512).tobytes())
            client.finish()
            assert client.rest() == numbered(20, 512).tobytes()
        daemon.account(came=20, emitted=20)


def test_reply_to_a_client_that_writes_all_before_it_reads(place):
    """It stalls itself, status says so, and it goes on as soon as it reads."""
    data = numbered(40, LARGE_BYTES).tobytes()
    with Daemon(place, {"cam0": pipeline(LARGE, sink={"reply": True})}) as daemon:
        with daemon.producer() as client:
            sending = Background(client.send, data)
            daemon.wait_view("it waits for its reader", lambda view: view["waiting"] == "reader")
            assert not sending.done
            assert client.read(len(data)) == data
            sending.join()
        daemon.account(came=40, emitted=40)


def test_reply_to_a_client_that_left_is_client_gone(place):
    with Daemon(place, {"cam0": pipeline(LARGE, sink={"reply": True})}) as daemon:
        with daemon.producer() as client:
            sending = Background(client.send, numbered(40, LARGE_BYTES).tobytes())
            daemon.wait_view("it waits for its reader", lambda view: view["waiting"] == "reader")
            client.socket.shutdown(2)
            with pytest.raises(OSError):
                sending.join()
        frames = daemon.wait_view("it is gone", lambda view: view["sessions"] == 0 and
                                  view["frames"]["in_flight"] == 0)["frames"]
        assert frames["dropped"]["client_gone"] > 0, frames
        lost = {fate for fate, count in frames["dropped"].items() if count}
        assert lost <= {"client_gone", "invalid"}, frames
        with daemon.producer() as client:  # the place is free again, and starts clean
            client.send(whole(77, LARGE_BYTES).tobytes())
            assert client.read(LARGE_BYTES) == whole(77, LARGE_BYTES).tobytes()


def test_a_client_that_has_all_its_replies_has_left(place):
    with Daemon(place, {"cam0": pipeline(SMALL, sink={"reply": True})}) as daemon:
        with daemon.producer() as client:
            client.send(numbered(3, 512).tobytes())
            assert client.read(3 * 512) == numbered(3, 512).tobytes()
        daemon.wait_log("left after 3 frames\n")
        daemon.account(came=3, emitted=3)


def test_reply_to_two_clients_of_different_pace(place):
    """One never reads; the other is not held up by it."""
    with Daemon(place, {"cam0": pipeline(SMALL, source={"clients": 2}, sink={"reply": True})}) as daemon:
        with daemon.producer() as stalled, daemon.producer() as lively:
            stop = threading.Event()

            def flood():
                try:
                    while not stop.is_set():
                        stalled.send(numbered(100, 512).tobytes())
                except OSError:
                    pass  # it is shut down below

            flooding = Background(flood)
            daemon.wait_view("one waits for its reader", lambda view: view["waiting"] == "reader")
            for number in range(100):
                lively.send(whole(number, 512).tobytes())
                assert lively.read(512) == whole(number, 512).tobytes()
            stop.set()
            stalled.socket.shutdown(2)
            flooding.join()
        wait_until(lambda: daemon.view()["sessions"] == 0, "both are gone")
