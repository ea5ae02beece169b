"""framed-link and a server whose answers lack what they should hold."""

import contextlib
import json
import socket
import threading
import time

import pytest

from harness import Daemon, pipeline, wait_until
from harness.nats import Link, needs_nats

pytestmark = [*needs_nats, pytest.mark.memory]

INFO = {"server_id": "x", "version": "2.9.10", "headers": True, "max_payload": 8 << 20, "jetstream": True}


class Liar:
    """Answers each request by what its subject begins with, behind "$JS.API."; else with an empty object. Bytes are the head of
    an answer without a body. Keeps what was asked."""

    def __init__(self, answers):
        self.answers, self.asked = answers, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"nats://127.0.0.1:{self.listener.getsockname()[1]}"

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        try:
            while True:
                threading.Thread(target=self.serve, args=self.listener.accept()[:1], daemon=True).start()
        except OSError:
            pass

    def serve(self, client):
        with contextlib.suppress(OSError):
            self.answer(client)

    def answer(self, client):
        client.sendall(b"INFO " + json.dumps(INFO).encode() + b"\r\n")
        file, number = client.makefile("rb"), b"1"
        for line in file:
            words = line.split()
            if words[:1] == [b"PING"]:
                client.sendall(b"PONG\r\n")
            elif words[:1] == [b"SUB"]:
                number = words[-1]
            elif words[:1] in ([b"PUB"], [b"HPUB"]):
                file.read(int(words[-1]) + 2)
                what = words[1].decode().removeprefix("$JS.API.")
                self.asked.append(what)
                answer = next((answer for name, answer in self.answers.items() if what.startswith(name)), {})
                if isinstance(answer, bytes):
                    client.sendall(b"HMSG %s %s %d %d\r\n%s\r\n" % (words[2], number, len(answer), len(answer), answer))
                else:
                    body = json.dumps(answer).encode()
                    client.sendall(b"MSG %s %s %d\r\n%s\r\n" % (words[2], number, len(body), body))


MADE = "2026-01-01T00:00:00Z"
FRAMES = {"STREAM.INFO": {"config": {"name": "FRAMES", "subjects": ["frames.cam0"], "retention": "workqueue"}, "created": MADE,
                          "state": {"messages": 0}},
          "CONSUMER.INFO": {"name": "workers", "stream_name": "FRAMES", "created": MADE,
                            "config": {"durable_name": "workers", "ack_policy": "explicit", "filter_subject": "frames.cam0"}}}


@pytest.mark.parametrize("answers", [{}, {"STREAM.INFO": {"type": "io.nats.jetstream.api.v1.stream_info_response"}}], ids=["empty", "type"])
def test_an_answer_without_a_configuration_is_said(place, answers):
    both = {"source": {"protocol": "native"}, "sink": {"protocol": "native"}}
    with Liar(answers) as server, Daemon(place, {"cam0": pipeline({"dtype": "uint8", "shape": [64]}, **both)}) as daemon:
        with Link(daemon, server, sources={"cam0": {"stream": "FRAMES", "consumer": "workers"}}) as link:
            wait_until(lambda: "what the server says of stream FRAMES makes no sense" in link.log, lambda: link.log, 20)
            assert link.process.poll() is None


def test_a_server_that_answers_nothing_is_asked_once_a_second(place):
    both = {"source": {"protocol": "native"}, "sink": {"protocol": "native"}}
    with Liar(FRAMES) as server, Daemon(place, {"cam0": pipeline({"dtype": "uint8", "shape": [64]}, slots=4, **both)}) as daemon:
        with Link(daemon, server, sources={"cam0": {"stream": "FRAMES", "consumer": "workers"}}) as link:
            wait_until(lambda: "is neither a frame nor a status" in link.log, lambda: link.log, 20)
            before = sum(what.startswith("CONSUMER.MSG.NEXT") for what in server.asked)
            time.sleep(2.5)
            more = sum(what.startswith("CONSUMER.MSG.NEXT") for what in server.asked) - before
            assert 0 < more <= 16, f"{more} requests in 2.5 s, with 4 slots"


def test_what_a_server_says_in_no_text_is_told(place):
    """The words of a server reach the log and the daemon, whatever bytes they are."""
    both = {"source": {"protocol": "native"}, "sink": {"protocol": "native"}}
    answers = {**FRAMES, "CONSUMER.MSG.NEXT": b"NATS/1.0 409 no \xff\x1b]0;x\x07 frames\r\n\r\n"}
    with Liar(answers) as server, Daemon(place, {"cam0": pipeline({"dtype": "uint8", "shape": [64]}, **both)}) as daemon:
        with Link(daemon, server, sources={"cam0": {"stream": "FRAMES", "consumer": "workers"}}) as link:
            wait_until(lambda: "sends no frames: no " in link.log, lambda: link.log, 20)
            assert "\x1b" not in link.log
            told = lambda: daemon.status()["pipelines"]["cam0"]["links"].get("source", {}).get("error") or ""
            wait_until(lambda: "sends no frames: no " in told(), told, 20)
