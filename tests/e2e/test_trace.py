"""Traces: valid events whose spans nest, agree with the histograms and are joined by arrows, whoever asks for them."""

import collections
import json
import signal
import socket
import threading
import time

import pytest

from harness import Background, Daemon, limit, numbered, pace, pipeline, slow_stage, wait_until
from harness.daemon import UnixConnection

pytestmark = pytest.mark.threads

SIZE = 512
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
GRAIN = 0.0011  # times are printed to the nanosecond


class Trace:
    """The events of an answer, each row with its name."""

    def __init__(self, text):
        self.events = json.loads(text)
        self.sums = self.events[0]["args"]
        names = collections.defaultdict(dict)
        for event in self.events:
            if event["ph"] == "M" and "name" in event["args"]:
                names[event["name"]][event["pid"], event["tid"]] = event["args"]["name"]
        self.processes = {pid: name for (pid, _), name in names["process_name"].items()}
        self.rows = {key: (self.processes[key[0]], name) for key, name in names["thread_name"].items()}

    def spans(self, name=None, row=None):
        """Spans of that name on rows whose name begins with `row`."""
        return [event for event in self.events if event["ph"] == "X" and name in (None, event["name"])
                and (row is None or self.row_of(event).startswith(row))]

    def row_of(self, event):
        return self.rows[event["pid"], event["tid"]][1]

    def instants(self):
        return [event for event in self.events[1:] if event["ph"] == "i"]

    def check(self):
        """What holds of every trace."""
        assert set(self.sums) == {"frames", "overwritten", "full", "seconds", "backend"}
        rows = collections.defaultdict(list)
        for event in self.spans():
            assert event["dur"] > 0 and (event["pid"], event["tid"]) in self.rows, event
            rows[event["pid"], event["tid"]].append(event)
        for row, events in rows.items():
            self.check_row(row, events)
        self.check_arrows(rows)
        self.check_order()
        for event in self.instants():
            assert self.row_of(event) == "dropped", event
        return self

    def check_row(self, row, events):
        """On host and engine rows spans follow one another; on a stream they lie within their frame. Empty ones have the last
        nanosecond before their end, where another one may be."""
        events.sort(key=lambda event: (event["ts"], event["dur"] > GRAIN, -event["dur"]))
        outer = []
        for event in events:
            while outer and outer[-1]["ts"] + outer[-1]["dur"] <= event["ts"] + GRAIN:
                outer.pop()
            if outer and event["dur"] > GRAIN:
                assert self.rows[row][1].startswith("stream"), (self.rows[row], outer[-1], event)
                assert event["ts"] + event["dur"] <= outer[-1]["ts"] + outer[-1]["dur"] + GRAIN, (outer[-1], event)
                assert event["args"]["frame"] == outer[-1]["args"]["frame"], (outer[-1], event)
            if event["dur"] > GRAIN:
                outer.append(event)

    def check_order(self):
        """Viewers sort rows by these numbers: each process has its rows in the order of the road."""
        road = ["trace", "copy engine in", "copy engine out", "receive", "queue", "stream", "wake", "emit", "dropped"]
        assert self.row_of(self.events[0]) == "trace" and self.events[0]["s"] == "t", self.events[0]
        order = {(event["pid"], event["args"]["sort_index"]): (event["pid"], event["tid"]) for event in self.events
                 if event["name"] == "thread_sort_index"}
        assert sorted(order.values()) == sorted(self.rows)
        processes, threads = ({event[key] for event in self.events} for key in ("pid", "tid"))
        assert not processes & threads, "a main thread's row would be the first one"
        rows = [(self.rows[key][0], self.rows[key][1].partition(" on device")[0].rstrip("0123456789 ")) for _, key in sorted(order.items())]
        for process in self.processes.values():
            steps = [road.index(name) for owner, name in rows if owner == process]
            assert steps == sorted(steps), (process, rows)

    def check_arrows(self, rows):
        begins = collections.defaultdict(set)
        for row, spans in rows.items():
            for span in spans:
                begins[row, span["ts"]].add((span["pid"], span["args"]["frame"]))
        arrows = collections.defaultdict(list)
        for event in self.events:
            if event["ph"] in "stf":
                arrows[event["id"]].append(event)
        for way in arrows.values():
            assert [event["ph"] for event in way] == ["s"] + ["t"] * (len(way) - 2) + ["f"], way
            ends = [begins[(event["pid"], event["tid"]), event["ts"]] for event in way]
            hosts = [{frame for pid, frame in end if pid == way[0]["pid"]} for end in ends if end]
            assert all(ends) and set.intersection(*[host for host in hosts if host]), (way, ends)


class Asked:
    """A trace that is being taken: the daemon has heard the request, for it has answered a later one."""

    def __init__(self, daemon, seconds):
        self.connection = UnixConnection(daemon.socket)
        self.connection.request("GET", f"/v1/trace?seconds={seconds}")
        daemon.status()

    def result(self):
        response = self.connection.getresponse()
        body = response.read().decode()
        self.connection.close()
        assert response.status == 200, body
        return Trace(body).check()


def ask(daemon, seconds):
    """A client that has asked for a trace, and waits."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(limit(30))
    client.connect(str(daemon.socket))
    client.sendall(f"GET /v1/trace?seconds={seconds} HTTP/1.1\r\nHost: framed\r\nConnection: close\r\n\r\n".encode())
    daemon.status()
    return client


def answer(client):
    parts = []
    while part := client.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("how", ["asked", "signal"])
def test_an_upgrade_tells_who_waits_for_a_trace(place, how):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon, ask(daemon, 20) as client:
        if how == "signal":
            daemon.signal(signal.SIGUSR2)
        else:
            assert daemon.post("/v1/upgrade")[0] == 200
        said = answer(client)
        assert said.startswith(b"HTTP/1.1 503 ") and b"another process takes over" in said and b"ask again" in said, said
        wait_until(lambda: daemon.status()["handovers"]["upgrade"] == 1, lambda: daemon.log)


def while_tracing(daemon, work):
    """Takes a trace within which all of `work` happens: a moment, and time for a machine that stands still meanwhile."""
    asked = Asked(daemon, pace(3))
    work()
    return asked.result()


def test_every_frame_is_told_as_the_histograms_have_it(place):
    count = 60
    entry = pipeline(FORMAT, stages=[{"work": {"rounds": 2}}], slots=3)
    with Daemon(place, {"cam0": entry}) as daemon, daemon.reader() as reader, daemon.producer() as producer:
        latency = {}

        def work():
            producer.send(numbered(count, SIZE).tobytes())
            reader.frames(count, SIZE)
            daemon.account(came=count, emitted=count)
            view = daemon.wait_view("status has them all", lambda view: view["latency_us"]["total"]["count"] == count)
            latency.update(view["latency_us"])
        trace = while_tracing(daemon, work)
        assert trace.sums["frames"] == count and trace.sums["overwritten"] == 0 and not trace.sums["full"]
        copies = "copy engine" if daemon.view()["copies"] == "engine" else "stream"
        for step, name, row in [("receive", "receive", "receive"), ("queue", "queue", "queue"), ("wake", "wake", "wake"),
                                ("emit", "emit", "emit"), ("kernel", "kernel", "stream"), ("h2d", "copy in", copies),
                                ("d2h", "copy out", copies)]:
            lengths = [span["dur"] for span in trace.spans(name, row)]
            if step in ("h2d", "d2h") and trace.sums["backend"] == "cpu":
                assert not lengths and latency[step]["max"] < 0.01  # nothing is copied there
                continue
            told = latency[step]["count"]
            assert len(lengths) == told, (step, len(lengths), latency[step])
            # Copies may be cut by the microseconds that the device's clock is moved by. What found its engine taken until it
            # was over itself, as small kernels side by side do, has no service, and is drawn where it was within its waiting.
            waited = latency["gpu_wait"] if trace.sums["backend"] == "cuda" else {"mean": 0, "max": 0}
            longer = sum(lengths) / told - latency[step]["mean"]
            assert -2 <= longer + 0.01 * latency[step]["mean"], (step, lengths, latency[step])
            assert longer <= 0.01 * latency[step]["mean"] + 2 + waited["mean"], (step, lengths, latency[step])
            assert max(lengths) <= latency[step]["max"] * 1.04 + 1 + waited["max"], (step, lengths, latency[step])
        frames = [span["args"]["frame"] for span in trace.spans("receive")]
        assert sorted(frames) == list(range(count))
        assert {trace.row_of(span) for span in trace.spans("frame")} == {"stream 0", "stream 1", "stream 2"}
        assert sum(event["ph"] == "s" for event in trace.events) == count


def test_dropped_frames_say_why(place):
    entry = pipeline(FORMAT, sink={"overload": "drop"})
    with Daemon(place, {"cam0": entry}) as daemon, daemon.producer() as producer:
        def work():
            producer.send(numbered(5, SIZE).tobytes())
            daemon.account(came=5, unread=5)
        trace = while_tracing(daemon, work)
        assert [event["name"] for event in trace.instants()] == ["unread"] * 5
        assert not trace.spans("emit") and len(trace.spans("kernel")) == 5


def test_sessions_have_processes_of_their_own(place):
    entries = {"cam0": pipeline(FORMAT, source={"clients": 3}, sink={"reply": True}), "cam1": pipeline(FORMAT)}
    with Daemon(place, entries) as daemon:
        clients = [daemon.producer() for _ in range(2)]

        def work():
            for client in clients:
                client.send(numbered(3, SIZE).tobytes())
                client.read(3 * SIZE)
        trace = while_tracing(daemon, work)
        for client in clients:
            client.close()
        named = {name for name in trace.processes.values() if name.startswith("cam")}
        assert len(named) == 2 and named < {f"cam0 session {i}" for i in range(3)}, named
        assert trace.sums["frames"] == 6


def test_an_idle_daemon_gives_an_empty_trace(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        trace = Asked(daemon, 0.1).result()
        assert trace.sums["frames"] == 0 and not trace.spans()


def test_several_at_once_and_others_are_served_meanwhile(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon, daemon.reader() as reader, daemon.producer() as producer:
        def settle(count, emitted):
            producer.send(numbered(count, SIZE).tobytes())
            reader.frames(count, SIZE)
            daemon.account(came=emitted, emitted=emitted)
        longer = Asked(daemon, pace(6))
        settle(3, 3)
        shorter = Asked(daemon, pace(3))
        settle(4, 7)
        assert shorter.result().sums["frames"] == 4
        settle(2, 9)
        assert longer.result().sums["frames"] == 9


def test_only_so_many_at_once(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        clients = [ask(daemon, 60) for _ in range(4)]
        assert daemon.request("GET", "/v1/trace?seconds=0.1")[0] == 503
        for client in clients:
            client.close()
        wait_until(lambda: daemon.request("GET", "/v1/trace?seconds=0.1")[0] == 200, "those who left made room")


def test_the_end_of_the_daemon_answers_who_waits(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        client = ask(daemon, 60)
        daemon.finish()
        assert answer(client).startswith(b"HTTP/1.1 503")


def test_a_reload_in_between(place):
    kept, removed = pipeline(FORMAT), pipeline(FORMAT, sink={"overload": "drop"})
    with Daemon(place, {"kept": kept, "old": removed}) as daemon:
        def work():
            with daemon.producer("old") as producer:
                producer.send(numbered(3, SIZE).tobytes())
                daemon.account("old", came=3, unread=3)
            daemon.write({"kept": kept, "new": removed})
            daemon.command("/v1/reload")
            for _ in range(30):  # a new session is noticed in ten turns of 10 ms, however long those really take
                time.sleep(0.01)
                daemon.status()
            with daemon.producer("new") as producer:
                producer.send(numbered(2, SIZE).tobytes())
                daemon.account("new", came=2, unread=2)
        trace = while_tracing(daemon, work)
        told = collections.Counter(trace.processes[span["pid"]] for span in trace.spans("receive"))
        assert told == {"old": 3, "new": 2}


def flood(daemon, stop):
    with daemon.producer() as producer:
        frames = numbered(200, SIZE).tobytes()
        while not stop.is_set():
            producer.send(frames)


def test_a_long_trace_with_clients_who_do_not_read(place):
    """The answer is longer than any buffer; its reader stalls, another leaves in the middle, and the frames go on."""
    entry = pipeline(FORMAT, slots=4, sink={"overload": "drop"})
    with Daemon(place, {"cam0": entry}) as daemon:
        stop = threading.Event()
        thread = threading.Thread(target=flood, args=(daemon, stop))
        thread.start()
        try:
            slow, leaving = ask(daemon, 1), ask(daemon, 1)
            assert leaving.recv(1000).startswith(b"HTTP/1.1 200")
            leaving.close()
            before = daemon.frames()["in"]
            enough, taken, end = threading.Event(), bytearray(), b"\r\n0\r\n\r\n"

            def take_little():
                """Of an answer of which nothing is taken for 5 s, the rest is not sent."""
                while not enough.wait(0.2) and not taken.endswith(end):
                    part = slow.recv(1 << 15)
                    assert part
                    taken.extend(part)
            taking = Background(take_little)
            daemon.wait_view("frames go on", lambda view: view["frames"]["in"] > before + 1000)

            def tells_frames():
                code, body = daemon.request("GET", "/v1/trace?seconds=0.3")
                assert code == 200, body
                return Trace(body).check().sums["frames"] > 0
            wait_until(tells_frames, "a trace has frames in it")
            enough.set()
            taking.join()
            assert (taken + answer(slow)).endswith(end)
            slow.close()
        finally:
            stop.set()
            thread.join()


@pytest.mark.parametrize("seconds", ["0.05", "61", "-1", "x", ""])
def test_wrong_lengths(place, seconds):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        code, body = daemon.request("GET", f"/v1/trace?seconds={seconds}")
        assert code == 400 and "60" in json.loads(body)["error"]


def test_slow_stages_show_what_overlaps(place):
    """Two streams at once on the device, each frame's kernel within its own stay there."""
    entry = pipeline(FORMAT, stages=[slow_stage(20)], slots=2)
    with Daemon(place, {"cam0": entry}) as daemon, daemon.reader() as reader, daemon.producer() as producer:
        def work():
            producer.send(numbered(6, SIZE).tobytes())
            reader.frames(6, SIZE)
            daemon.account(came=6, emitted=6)
        trace = while_tracing(daemon, work)
        assert len(trace.spans("kernel")) == 6
        by_stream = collections.Counter(trace.row_of(span) for span in trace.spans("frame"))
        assert by_stream == {"stream 0": 3, "stream 1": 3}
