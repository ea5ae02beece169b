"""Large lossless results, which are written on another lane than their session's where there is one."""

import itertools
import pathlib
import signal
import threading

import numpy as np
import pytest

from harness import Background, Daemon, numbered, pipeline, require_whole, wait_until, whole

BYTES = 512 << 10
FORMAT = {"dtype": "uint8", "shape": [BYTES]}
SCALE = {"affine": {"scale": 1.0, "offset": 0.0}}

pytestmark = [pytest.mark.parametrize("lanes", [1, 2, 3]), pytest.mark.threads]


@pytest.mark.parametrize("slots", [1, 2, 5])
@pytest.mark.parametrize("completion", ["callback", "spin"])
def test_every_result_arrives_whole_and_every_answer_balances(place, lanes, slots, completion):
    entry = pipeline(FORMAT, slots=slots, completion=completion)
    with Daemon(place, {"cam0": entry}, lanes=lanes) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            sending = Background(producer.send, numbered(60, BYTES).tobytes())
            taking = Background(reader.frames, 60, BYTES)
            while not taking.done:
                daemon.status()  # it checks the ledger
            np.testing.assert_array_equal(taking.join(), numbered(60, BYTES))
            sending.join()
        daemon.account(came=60, emitted=60)


def test_two_pipelines_cross_each_other(place, lanes):
    with Daemon(place, {name: pipeline(FORMAT) for name in ("cam0", "cam1")}, lanes=lanes) as daemon:
        with daemon.reader("cam0") as first, daemon.reader("cam1") as second, \
                daemon.producer("cam0") as to_first, daemon.producer("cam1") as to_second:
            data = numbered(40, BYTES)
            work = [Background(to_first.send, data.tobytes()), Background(to_second.send, data.tobytes()),
                    Background(first.frames, 40, BYTES), Background(second.frames, 40, BYTES)]
            for thread in work[2:]:
                np.testing.assert_array_equal(thread.join(), data)
            for thread in work[:2]:
                thread.join()
        for name in ("cam0", "cam1"):
            daemon.account(name, came=40, emitted=40)


def test_readers_that_come_and_go_lose_nothing_that_nobody_took(place, lanes):
    """Each reader takes two results and leaves; what it had begun beyond goes to the next one, if nobody took it."""
    stop = threading.Event()

    def produce(producer):
        for number in itertools.count():
            if stop.is_set():
                return number
            producer.send(whole(number, BYTES).tobytes())

    with Daemon(place, {"cam0": pipeline(FORMAT)}, lanes=lanes) as daemon:
        with daemon.producer() as producer:
            sending = Background(produce, producer)
            for _ in range(15):
                with daemon.reader(buffer=4096) as reader:
                    require_whole(reader.read(2 * BYTES), BYTES)
            stop.set()
            with daemon.reader() as reader:
                rest = Background(reader.rest)
                sent = sending.join()
                daemon.account(came=sent, emitted=sent)
                daemon.finish()
                numbers = require_whole(rest.join(), BYTES)
    assert numbers == list(range(sent - len(numbers), sent))


def test_a_drain_waits_for_the_reader_and_says_so(place, lanes):
    with Daemon(place, {"cam0": pipeline(FORMAT, slots=3)}, lanes=lanes, drain_timeout="300ms") as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(3, BYTES).tobytes())
            producer.wait_read()
            daemon.wait_view("all wait for a reader", lambda view: view["waiting"] == "reader" and
                             view["frames"]["in_flight"] == 3 and view["frames"]["emitted"] == 0)

            def says_so():
                code, answer = daemon.post("/v1/pipelines/cam0/drain")
                assert code == 504 and "3 frames in flight" in answer["error"], answer
                return "reader" in answer["error"]

            wait_until(says_so, "what it waits for")  # a lane that moved something just now says nothing of it yet
            with daemon.reader() as reader:
                np.testing.assert_array_equal(reader.frames(3, BYTES), numbered(3, BYTES))
            daemon.wait_view("it is drained", lambda view: view["state"] == "drained")
            daemon.account(came=3, emitted=3)
            daemon.command("/v1/pipelines/cam0/resume")


def test_what_nobody_takes_ends_with_the_daemon(place, lanes):
    """Results before a reader that stalls within one, others in the queue, others before the device."""
    with Daemon(place, {"cam0": pipeline(FORMAT, slots=3)}, lanes=lanes, drain_timeout="200ms") as daemon:
        with daemon.reader(buffer=4096) as reader, daemon.producer() as producer:
            first = Background(reader.frames, 2, BYTES)
            producer.send(numbered(5, BYTES).tobytes())
            np.testing.assert_array_equal(first.join(), numbered(2, BYTES))
            producer.wait_read()
            daemon.wait_view("it waits for its reader", lambda view: view["waiting"] == "reader")
            daemon.signal(signal.SIGTERM)
            daemon.ends()
    account = daemon.final_account()
    assert account["in"] == 5 and account["emitted"] in (2, 3, 4), account  # the socket takes up to two more
    assert account["emitted"] + account["shutdown"] == 5, account


def test_a_reload_that_cuts_waiting_results_off(place, lanes):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, lanes=lanes, drain_timeout="200ms") as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(2, BYTES).tobytes())
            producer.wait_read()
            daemon.wait_view("it waits for a reader", lambda view: view["waiting"] == "reader")
            for stages in ([SCALE], [], [SCALE]):
                daemon.write({"cam0": pipeline(FORMAT, stages=stages, slots=3 if stages else 2)}, lanes=lanes, drain_timeout="200ms")
                code, answer = daemon.post("/v1/reload")
                assert code == 200 and answer["changed"] == ["cam0"], answer
        daemon.wait_log("shutdown 2")
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(2, BYTES).tobytes())
            np.testing.assert_array_equal(reader.frames(2, BYTES), numbered(2, BYTES))
        daemon.account(came=2, emitted=2)


def test_a_file_of_large_results(place, lanes):
    file = place / "results"
    entry = pipeline(FORMAT, sink={"file": str(file)})
    with Daemon(place, {"cam0": entry}, lanes=lanes) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(20, BYTES).tobytes())
            daemon.account(came=20, emitted=20)
    assert file.read_bytes() == numbered(20, BYTES).tobytes()


# -- reply ---------------------------------------------------------------------------------------------------------------


def test_replies_to_several_clients_at_once(place, lanes):
    entry = pipeline(FORMAT, source={"clients": 3}, sink={"reply": True}, slots=3)
    with Daemon(place, {"cam0": entry}, lanes=lanes) as daemon:
        clients = [daemon.producer() for _ in range(3)]
        data = [numbered(20, BYTES, first=100 * i).tobytes() for i in range(3)]
        sending = [Background(client.send, part) for client, part in zip(clients, data)]
        taking = [Background(client.read, len(part)) for client, part in zip(clients, data)]
        for thread, part in zip(taking, data):
            assert thread.join() == part
        for thread in sending:
            thread.join()
        for client in clients:
            client.close()
        daemon.account(came=60, emitted=60)


def test_clients_that_leave_within_a_reply_follow_each_other(place, lanes):
    """What was meant for one that left never reaches the next, who gets the first reply to a frame of its own."""
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"reply": True}, slots=3)}, lanes=lanes) as daemon:
        for number in range(0, 200, 10):
            with daemon.producer() as client:
                client.send(numbered(3, BYTES, first=number).tobytes())
                assert client.read(BYTES) == whole(number, BYTES).tobytes()
                if number % 20:
                    client.read(1000)
        daemon.wait_view("all are gone", lambda view: view["sessions"] == 0 and view["frames"]["in_flight"] == 0)
        with daemon.producer() as client:
            sending = Background(client.send, numbered(5, BYTES, first=900).tobytes())
            assert client.read(5 * BYTES) == numbered(5, BYTES, first=900).tobytes()
            sending.join()
        frames = daemon.wait_view("all have their fate", lambda view: view["frames"]["in_flight"] == 0)["frames"]
    assert frames["in"] == 65 and frames["emitted"] >= 25, frames
    assert frames["emitted"] + frames["dropped"]["client_gone"] == 65, frames


def test_a_client_that_finished_gets_its_last_reply(place, lanes):
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"reply": True})}, lanes=lanes) as daemon:
        for _ in range(5):
            with daemon.producer() as client:
                sending = Background(client.send, numbered(4, BYTES).tobytes())
                replies = Background(client.rest)
                sending.join()
                client.finish()
                assert replies.join() == numbered(4, BYTES).tobytes()
        daemon.account(came=20, emitted=20)


@pytest.mark.parametrize("order", [signal.SIGTERM, "reload"])
def test_an_end_while_replies_wait(place, lanes, order):
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"reply": True}, slots=3)}, lanes=lanes, drain_timeout="200ms") as daemon:
        with daemon.producer() as client:
            client.send(numbered(3, BYTES).tobytes())
            client.wait_read()
            daemon.wait_view("it waits for its reader", lambda view: view["waiting"] == "reader")
            if order == "reload":
                daemon.write({"cam0": pipeline(FORMAT, sink={"reply": True})}, lanes=lanes, drain_timeout="200ms")
                assert daemon.post("/v1/reload")[0] == 200
                daemon.wait_log("cam0: stopped: in 3")
            else:
                daemon.signal(order)
                daemon.ends()
    account = daemon.final_account()
    if order != "reload":
        assert account["in"] == 3 and account["emitted"] + account["shutdown"] == 3, account


def test_threads_say_which_lane_they_are(place, lanes):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, lanes=lanes) as daemon:
        tasks = pathlib.Path(f"/proc/{daemon.process.pid}/task")
        names = [(task / "comm").read_text().strip() for task in tasks.iterdir()]
        assert sorted(name for name in names if "lane" in name) == [f"framed-lane-{index}" for index in range(lanes)]
