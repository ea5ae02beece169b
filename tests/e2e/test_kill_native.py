"""A daemon killed again and again under load of native clients: most of them go on where they were, and none gets a wrong result.

Whoever is cut off comes again.
"""

import contextlib
import os
import random
import socket
import subprocess
import time

import pytest

from harness import Background, pipeline, wait_until, whole
from harness.daemon import environment
from harness.native import BOTH, CONSUMER, PRODUCER, Borrower, Native, NotLent, Refused, Shared, frame
from harness.store import start
from test_libframed import drive_client, finish, sunk

pytestmark = pytest.mark.threads

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
KILLS = 100 if os.environ.get("FRAMED_SOAK") else 8


class Again:
    """Makes a client, uses it, and makes another when it is cut off."""

    def __init__(self, make, use):
        self.connections, self.got, self.stopped, self.client = 0, 0, False, None
        self.make, self.use = make, use
        self.thread = Background(self.run)

    def run(self):
        while not self.stopped:
            try:
                with self.make() as self.client:
                    self.connections += 1
                    self.use(self)
            except (OSError, EOFError, Refused, NotLent):
                time.sleep(0.001)

    def took(self, last, result):
        is_whole = result.payload == whole(result.sequence, SIZE).tobytes()
        assert result.sequence > last and is_whole, f"{result.sequence} after {last}"
        self.got += 1
        return result.sequence

    def stop(self, cut=False):
        self.stopped = True
        if cut:
            with contextlib.suppress(OSError):
                self.client.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()


def send_on(again):
    number = 0
    while not again.stopped:
        again.client.send(frame(whole(number, SIZE).tobytes(), sequence=number))
        number += 1


def take_stream(again):
    last = -1
    while not again.stopped:
        last = again.took(-1, again.client.result())  # producers that come again count from 0
        assert last >= 0


def reply_stream(again):
    last, number = -1, 0
    while not again.stopped:
        again.client.send(frame(whole(number, SIZE).tobytes(), sequence=number))
        number += 1
        last = again.took(last, again.client.result())


def reply_shared(again):
    client, last, number = again.client, -1, 0
    while not again.stopped:
        while client.free and number - last < 3:
            client.submit(client.free.pop(0), whole(number, SIZE).tobytes(), sequence=number)
            number += 1
        client.sleep()
        while client.word(4096) != client.taken & 0xFFFFFFFF:
            slot, fate, result = client.completion()
            if fate == 0:
                last = again.took(last, result._replace(payload=client.payload(slot)))
            client.take()
            client.free.append(slot)
        client.ring()


def submit_shared(again):
    client, number = again.client, 0
    while not again.stopped:
        while client.free:
            client.submit(client.free.pop(0), whole(number, SIZE).tobytes(), sequence=number)
            number += 1
        client.sleep()
        while client.word(4096) != client.taken & 0xFFFFFFFF:
            client.free.append(client.completion()[0])
            client.take()
        client.ring()


def borrow(again):
    while not again.stopped:
        again.client.sleep()
        while again.client.lent():
            again.took(-1, again.client.result()[1])
            again.client.take()


def kill_under(place, store, entry, makers):
    """How many connections each of the clients needed."""
    chance = random.Random(len(makers))
    with start(place, store, {"cam0": entry}, lanes=2) as daemon:
        clients = [Again(lambda make=make: make(daemon), use) for make, use in makers]
        for _ in range(KILLS):
            before = clients[-1].got
            wait_until(lambda: clients[-1].got > before + 5 or clients[-1].thread.done, "results flow", 30)
            time.sleep(chance.random() / 50)
            store.kill(daemon)
        clients[0].stop()
        daemon.wait_view("all is over", lambda view: view["sessions"] == 0 and view["frames"]["in_flight"] == 0, seconds=30)
        clients[-1].stop(cut=True)
        assert daemon.status()["handovers"]["crash"] == KILLS and "begins anew" not in daemon.log
    print(f"{KILLS} kills: {[client.connections for client in clients]} connections, {clients[-1].got} results")
    return [client.connections for client in clients]


@pytest.mark.takes(120)
@pytest.mark.parametrize("use, make", [(reply_stream, lambda path: Native(path, BOTH, token=9)), (reply_shared, Shared)])
def test_who_is_replied_to(place, store, use, make):
    entry = pipeline(FORMAT, source={"protocol": "native"}, sink={"reply": True}, slots=3)
    (connections,) = kill_under(place, store, entry, [(lambda daemon: make(daemon.path("cam0", "source")), use)])
    assert connections <= KILLS


@pytest.mark.takes(120)
@pytest.mark.parametrize("overload", ["block", "drop"])
@pytest.mark.parametrize("take, consumer", [(take_stream, lambda path: Native(path, CONSUMER)), (borrow, Borrower)])
@pytest.mark.parametrize("give, producer", [(send_on, lambda path: Native(path, PRODUCER)),
                                            (submit_shared, lambda path: Shared(path, PRODUCER))])
def test_who_sends_and_who_takes(place, store, give, producer, take, consumer, overload):
    entry = pipeline(FORMAT, source={"protocol": "native"}, sink={"protocol": "native", "overload": overload}, slots=4)
    kill_under(place, store, entry, [(lambda daemon: producer(daemon.path("cam0", "source")), give),
                                     (lambda daemon: consumer(daemon.path("cam0", "sink")), take)])


def drive(path, role, transport):
    """A user of libframed, who connects again for a minute."""
    command = [drive_client(), path, role, transport, "0", "sleep", "60"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())


@pytest.mark.takes(120)
@pytest.mark.parametrize("transport", ["stream", "shared"])
def test_users_of_libframed_lose_nothing(place, store, transport):
    """Of a producer and a consumer any may be cut off, and the other one go on."""
    with start(place, store, {"cam0": sunk()}, lanes=2) as daemon:
        consumer = drive(daemon.path("cam0", "sink"), "consumer", "stream")
        daemon.wait_view("it is there", lambda view: view["readers"] == 1)
        producer = drive(daemon.path("cam0", "source"), "producer", transport)
        for number in range(3 * KILLS):
            before = daemon.view()["frames"]["emitted"]
            daemon.wait_view("frames flow", lambda view: view["frames"]["emitted"] > before + number * 7 % 40, seconds=30)
            store.kill(daemon)
        producer.terminate()
        sent, taken = finish(producer), finish(consumer)
        for answer in (sent, taken):
            assert answer["status"] == 0 and (answer["wrong"], answer["out_of_order"]) == (0, 0), answer["said"]
        assert taken["results"] == sent["sent"] > 0
