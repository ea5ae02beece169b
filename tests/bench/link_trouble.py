"""A work queue of NATS, two boxes that share it, and what happens to them: killed, cut off, without their server.

A box is a daemon and framed-link, in a network namespace of its own where those may be made.
"""

import json
import os
import random
import socket
import statistics
import subprocess
import time

from harness import Daemon, pipeline, wait_until
from harness.nats import Link, Server

SIZE = 1024
DUPLICATES_NS = 120_000_000_000


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True).returncode == 0


class Network:
    """A bridge with the server on it, and a cable to each box; without the right to make them, boxes share this machine's."""

    def __init__(self, boxes):
        self.tag, self.boxes, self.made = f"fl{os.getpid() % 100000}", boxes, []
        self.address = "127.0.0.1"

    def __enter__(self):
        if ip("netns", "add", f"{self.tag}x", check=False):
            ip("netns", "delete", f"{self.tag}x")
            self.address = "10.213.77.1"
            # An address of its own, or it would take another one whenever a cable comes or goes.
            ip("link", "add", f"{self.tag}b", "address", "02:00:00:00:77:01", "type", "bridge")
            ip("address", "add", f"{self.address}/24", "dev", f"{self.tag}b")
            ip("link", "set", f"{self.tag}b", "up")
            for number in range(self.boxes):
                self.add(number)
        return self

    def add(self, number):
        name = f"{self.tag}n{number}"
        ip("netns", "add", name)
        self.made.append(name)
        ip("link", "add", self.cable(number), "type", "veth", "peer", "name", "uplink", "netns", name)
        ip("link", "set", self.cable(number), "master", f"{self.tag}b", "up")
        for words in (("address", "add", f"10.213.77.{number + 2}/24", "dev", "uplink"), ("link", "set", "uplink", "up"),
                      ("link", "set", "lo", "up")):
            ip("-n", name, *words)

    def cable(self, number):
        return f"{self.tag}c{number}"

    def plug(self, number, there):
        ip("link", "set", self.cable(number), "up" if there else "down")

    def within(self, number):
        return ("ip", "netns", "exec", self.made[number]) if self.made else ()

    def __exit__(self, *_):
        for name in self.made:
            ip("netns", "delete", name, check=False)
        if self.made:
            ip("link", "delete", f"{self.tag}b", check=False)


class Box:
    """A daemon and a link that share the queue FRAMES with other boxes."""

    def __init__(self, place, server, number=0, network=None, sink=True, nats=None, **source):
        self.place, self.number = place / f"box{number}", number
        self.place.mkdir()
        entry = pipeline({"dtype": "uint8", "shape": [SIZE]}, source={"protocol": "native"}, sink={"protocol": "native"}, slots=4)
        self.daemon = Daemon(self.place, {"cam0": entry}, log={"level": "info"})
        self.link = Link(self.daemon, server, sources={"cam0": {"stream": "FRAMES", "consumer": "workers", **source}},
                         sinks={"cam0": {"stream": "RESULTS", "overload": "block"}} if sink else {},
                         within=network.within(number) if network else (), **({"nats": nats} if nats else {}))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        self.link.metrics_file.unlink(missing_ok=True)
        self.daemon.start()
        self.link.start()

    def kill(self):
        """Power off: both at once."""
        self.link.process.kill()
        self.daemon.process.kill()
        self.link.process.wait()
        self.daemon.process.wait()

    def again(self):
        self.kill()
        time.sleep(0.2)
        self.start()


def make_streams(nats, **keys):
    nats.make_stream("FRAMES", ["frames.cam0"], retention="workqueue", **keys)
    nats.make_stream("RESULTS", ["results.cam0"], duplicate_window=DUPLICATES_NS, **keys)


def fill(nats, frames, behind=0):
    """Puts frames into the empty queue, numbered from 1 on."""
    for number in range(1, frames + 1):
        nats.publish("frames.cam0", (behind + number).to_bytes(8, "little") + bytes(SIZE - 8))
        if number % 500 == 0 or number == frames:
            wait_until(lambda: nats.stored("FRAMES") >= number, "the queue is filled", 60)


def results(nats, count):
    """How often each frame has a result in the stream."""
    seen = {}
    nats.ask("CONSUMER.DURABLE.CREATE.RESULTS.reading", {"stream_name": "RESULTS", "config": {
        "durable_name": "reading", "ack_policy": "none", "deliver_policy": "all"}})
    for done in range(count):
        if done % 1000 == 0:
            nats.publish("$JS.API.CONSUMER.MSG.NEXT.RESULTS.reading", json.dumps({"batch": min(1000, count - done)}).encode(),
                         f"{nats.inbox}.batch")
        message = nats.next()
        number = int.from_bytes(message.data[:8], "little")
        name = message.headers.get("Nats-Msg-Id", "").split(":")  # pipeline, stream, when that was made, number
        assert name[:2] + name[3:] == ["cam0", "FRAMES", str(number)], (message.subject, message.headers, number)
        seen[number] = seen.get(number, 0) + 1
    return seen


def ask(server, question, otherwise=None):
    try:
        with server.client() as nats:
            nats.socket.settimeout(1)  # one of several servers does not answer while they elect a leader
            return question(nats)
    except (OSError, EOFError, LookupError, ValueError):
        return otherwise


def consumer(server):
    try:
        return ask(server, lambda nats: nats.ask("CONSUMER.INFO.FRAMES.workers"), {})
    except TimeoutError as error:
        return {"error": str(error)}


def diagnosis(server, boxes):
    """What the queue says of itself, and the links, while it does not empty."""
    view = consumer(server)
    said = {key: view.get(key) for key in ("num_ack_pending", "num_pending", "num_redelivered", "num_waiting", "ack_floor", "delivered")}
    state = ask(server, lambda nats: nats.ask("STREAM.INFO.FRAMES")["state"])
    links = [box.link.metrics(role=role) for box in boxes for role in ("source", "sink")]
    said |= {key: view[key] for key in ("cluster", "error") if key in view}
    return f"consumer {json.dumps(said)}\nstream {json.dumps(state)}\nlinks {json.dumps(links)}"


def faults_of(network, server, boxes, kills, cuts, restarts, chance):
    def kill():
        chance.choice(boxes).again()

    def cut():
        number = chance.choice(boxes).number
        network.plug(number, False)
        time.sleep(chance.uniform(0.5, 4))
        network.plug(number, True)

    def restart():
        server.kill()
        time.sleep(chance.uniform(0, 1))
        server.start()
    faults = [kill] * kills + [cut] * cuts + [restart] * restarts
    chance.shuffle(faults)
    return faults


def count_results(server, frames):
    stored = ask(server, lambda nats: nats.stored("RESULTS"), 0)
    with server.client() as nats:
        seen = results(nats, stored)
    return len(seen), stored - len(seen), f"{frames} frames, {len(seen)} computed, {stored - len(seen)} stored twice"


def emptied(server, boxes):
    wait_until(lambda: ask(server, lambda nats: nats.stored("FRAMES"), 1) == 0,
               lambda: f"the queue is empty: {diagnosis(server, boxes)}", 60)


def under_load(server, boxes, frames, faults, say):
    """Lets the faults happen, each when a further part of the results is stored; seconds it took."""
    begin = time.monotonic()
    for number, fault in enumerate(faults):
        least = frames * number // len(faults)
        wait_until(lambda: ask(server, lambda nats: nats.stored("RESULTS"), 0) >= least,
                   lambda: f"it goes on after {number} faults: {diagnosis(server, boxes)}", 60)
        say(f"{time.monotonic() - begin:.1f} s, {least} stored: {fault.__name__}")
        fault()
    emptied(server, boxes)
    return time.monotonic() - begin


def trouble(place, frames, kills, cuts, restarts, seed, say):
    """Two boxes share a queue of so many frames while they, their networks and the server fail, in any order."""
    chance = random.Random(seed)
    with Network(2) as network, Server(place, durable=True, host=network.address) as server:
        with server.client() as nats:
            make_streams(nats)
            fill(nats, frames)
        boxes = [Box(place, server, number, network, ack_wait="2s", deliver=100) for number in range(2)]
        with boxes[0], boxes[1]:
            cuts = cuts if network.made else 0
            seconds = under_load(server, boxes, frames, faults_of(network, server, boxes, kills, cuts, restarts, chance), say)
            computed, twice, more = count_results(server, frames)
    more = f"{more}; {kills} kills of a box, {cuts} cuts, {restarts} kills of the server in {seconds:.0f} s"
    yield {"what": "frames of a queue computed under trouble, of all", "value": computed / frames, "at_least": 1, "more": more}
    yield {"what": "results stored twice under trouble", "value": twice, "at_most": 0, "more": more}


# -- a box that dies -----------------------------------------------------------------------------------------------------------


def redelivery(place, rounds):
    """Seconds from the SIGKILL of a box that holds frames until another one's results of them are stored."""
    took = []
    with Server(place) as server, server.client() as nats:
        make_streams(nats)
        holder = Box(place, server, 0, sink=False, ack_wait="2s", deliver=100)  # nobody reads its results
        other = Box(place, server, 1, ack_wait="2s", deliver=100)
        for turn in range(rounds):
            with holder:
                for _ in range(4):
                    nats.put("frames.cam0", bytes(SIZE))
                wait_until(lambda: holder.link.metrics(role="source").get("in_flight") == 4, "it has taken them", 20)
                with other:
                    other.link.wait_up("source")
                    other.link.wait_up("sink")
                    holder.kill()
                    begin = time.monotonic()
                    wait_until(lambda: nats.stored("RESULTS") == 4 * (turn + 1), "another box has computed them", 20)
                    took.append(time.monotonic() - begin)
                    wait_until(lambda: nats.stored("FRAMES") == 0, "the queue is empty", 20)
    yield {"what": "frames of a box that died, computed by another (ack_wait 2s), slowest", "value": round(max(took), 2), "unit": "s",
           "at_most": 4.5, "more": f"median {statistics.median(took):.2f} s, {rounds} rounds of 4 frames"}


# -- three servers -------------------------------------------------------------------------------------------------------------


class Cluster:
    """Three servers, of which any one may be dead."""

    def __init__(self, place):
        free = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        ports = [each.getsockname()[1] for each in free]
        for each in free:
            each.close()
        routes = [f"nats://127.0.0.1:{port}" for port in ports]
        self.servers = [Server(place, f"n{number}", server_name=f"n{number}",
                               cluster={"name": "c", "host": "127.0.0.1", "port": port, "routes": routes})
                        for number, port in enumerate(ports)]
        self.url = self.servers[0].url

    def __enter__(self):
        for server in self.servers:
            server.start()
        return self

    def __exit__(self, *_):
        for server in self.servers:
            if server.process:
                server.kill()

    def client(self):
        return next(server for server in self.servers if server.process.poll() is None).client()

    def leader(self, stream):
        """The server that leads a stream; None while they elect one."""
        info = ask(self, lambda nats: nats.ask(f"STREAM.INFO.{stream}"), {})
        name = info.get("cluster", {}).get("leader")
        return self.servers[int(name[1:])] if name else None


def is_whole(cluster):
    """Every stream has its leader and followers that keep up."""
    for stream in ("FRAMES", "RESULTS"):
        info = ask(cluster, lambda nats, stream=stream: nats.ask(f"STREAM.INFO.{stream}"), {}).get("cluster", {})
        followers = info.get("replicas") or []
        if not info.get("leader") or len(followers) != 2 or not all(each.get("current") for each in followers):
            return False
    return True


def leader(place, frames, kills, say):
    """In each round a part of the frames is in the queue before the boxes start, and a leader dies when some are computed."""
    part, stalls = frames // kills, []
    with Cluster(place) as cluster:
        wait_until(lambda: ask(cluster, lambda nats: nats.ask("INFO")), "JetStream answers", 60)
        wait_until(lambda: ask(cluster, lambda nats: make_streams(nats, num_replicas=3) or True), "the streams are made", 60)
        boxes = [Box(place, cluster, number, ack_wait="2s", deliver=100, nats={"servers": [each.url for each in cluster.servers]})
                 for number in range(2)]

        def stored():
            return ask(cluster, lambda nats: nats.stored("RESULTS"), 0)
        for turn in range(kills):
            wait_until(lambda: is_whole(cluster), "all three servers are one again", 60)
            with cluster.client() as nats:
                fill(nats, part, part * turn)
            with boxes[0], boxes[1]:
                wait_until(lambda: stored() > part * turn + part // 8, lambda: f"it begins: {diagnosis(cluster, boxes)}", 60)
                victim = wait_until(lambda: cluster.leader(("RESULTS", "FRAMES")[turn % 2]), "there is a leader", 60)
                before, begin = stored(), time.monotonic()
                victim.kill()
                wait_until(lambda: stored() >= min(before + 50, part * (turn + 1)), lambda: f"it goes on: {diagnosis(cluster, boxes)}", 60)
                stalls.append(time.monotonic() - begin)
                say(f"results again after {stalls[-1]:.1f} s")
                emptied(cluster, boxes)
            victim.start()
        computed, twice, more = count_results(cluster, part * kills)
    more = f"{more}; {kills} kills, results again after {max(stalls):.1f} s at most"
    yield {"what": "frames computed though leaders of three servers were killed, of all", "value": computed / (part * kills),
           "at_least": 1, "more": more}
    yield {"what": "results stored twice though leaders were killed", "value": twice, "at_most": 0, "more": more}
