"""Other stages in place of those that run: nobody is disconnected, no frame is lost, and all keep their order."""

import contextlib
import json
import pathlib
import shutil
import signal

import numpy as np
import pytest

from harness import BACKEND, Background, Daemon, pipeline, wait_until
from harness.daemon import ROOT
from harness.native import Shared
from test_handover_storm import open_files
from test_models import SIZE as MODEL_SIZE
from test_models import TENSOR, WITH, model_file, needs_library, runs
from test_own_stages import build, table

SIZE = 64
FORMAT = {"dtype": "float32", "shape": [SIZE]}
BYTES = 4 * SIZE


def adds(offset, **keys):
    return pipeline(FORMAT, stages=[{"affine": {"scale": 1, "offset": offset}}], **keys)


def frame(number):
    return np.full(SIZE, number, np.float32)


def change(daemon, pipelines, in_place=("cam0",), **keys):
    daemon.write(pipelines, **keys)
    answer = daemon.command("/v1/reload")
    assert answer["in_place"] == list(in_place) and not answer["same"], answer
    return answer


class Traffic:
    """Frames with numbers through one connection each way, until end(), which gives the results."""

    def __init__(self, daemon, size=SIZE, name="cam0"):
        self.daemon, self.size, self.name, self.sent, self.ends = daemon, size, name, 0, False
        self.reader, self.producer = daemon.reader(name), daemon.producer(name)
        self.sending = Background(self.send)
        self.taking = Background(self.take)

    def send(self):
        while not self.ends:
            self.producer.send(np.full(self.size, self.sent, np.float32).tobytes())
            self.sent += 1
        self.producer.send(np.full(self.size, np.nan, np.float32).tobytes())  # so that the reader knows the last one

    def take(self):
        results = [self.reader.frames(1, self.size, np.float32)[0]]
        while not np.isnan(results[-1][0]):
            results.append(self.reader.frames(1, self.size, np.float32)[0])
        return results[:-1]

    def go_on(self, frames=50):
        before = self.daemon.frames(self.name)["emitted"]
        self.daemon.wait_view("frames pass", lambda view: view["frames"]["emitted"] >= before + frames, self.name)

    def end(self):
        self.ends = True
        self.sending.join()
        self.producer.close()
        results = self.taking.join()
        assert len(results) == self.sent
        self.daemon.account(self.name, came=self.sent + 1, emitted=self.sent + 1)
        self.reader.close()
        return results


def require_steps(results, versions):
    """Every frame was computed by one of the versions, in their order, each of which had some."""
    numbers, version, seen = np.arange(len(results)), 0, {0}
    for number, result in zip(numbers, results, strict=True):
        while version < len(versions) and not (result == np.float32(versions[version](number))).all():
            version += 1
        assert version < len(versions), (number, result[:4])
        seen.add(version)
    assert seen == set(range(len(versions)))


@pytest.mark.parametrize("keys", [{}, {"slots": 4, "completion": "spin"}, {"slots": 1}], ids=str)
def test_under_load(place, keys):
    with Daemon(place, {"cam0": adds(1, **keys)}) as daemon:
        traffic = Traffic(daemon)
        for offset in (0.25, 0.5, 0.75):
            traffic.go_on()
            change(daemon, {"cam0": adds(offset, **keys)})
        traffic.go_on()
        results = traffic.end()
    require_steps(results, [lambda number, offset=offset: number + offset for offset in (1, 0.25, 0.5, 0.75)])


@needs_library
def test_a_models_file_under_load(place):
    """Two pipelines that run it and one that does not."""
    models = {"line": {"file": str(model_file(place))}}
    entries = {"cam0": runs(slots=3), "cam1": runs(), "other": adds(1)}
    with Daemon(place, entries, models=models, env=WITH) as daemon:
        traffic = [Traffic(daemon, MODEL_SIZE), Traffic(daemon, MODEL_SIZE, "cam1")]
        for each in traffic:
            each.go_on()
        model_file(place, factor=4.0)
        answer = change(daemon, entries, in_place=["cam0", "cam1"], models=models)
        assert answer["unchanged"] == ["other"]
        for each in traffic:
            each.go_on()
            require_steps(each.end(), [lambda number: 2 * number + 1, lambda number: 4 * number + 1])
        assert daemon.log.count("model line is open") == 2
        assert "was disconnected" not in daemon.log


@needs_library
def test_weights_beside_a_model_are_part_of_it(place):
    for name in ("beside.onnx", "beside.bin"):
        shutil.copy(ROOT / "tests/data/models" / name, place)
    entry = pipeline({"dtype": "float32", "shape": [1, 64]}, stages=[{"model": {"file": str(place / "beside.onnx")}}])
    with Daemon(place, {"cam0": entry}, env=WITH) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(frame(0).tobytes())
            np.testing.assert_array_equal(reader.frames(1, 64, np.float32)[0], np.arange(64))
            assert daemon.command("/v1/reload")["same"]
            (place / "new").write_bytes(np.arange(64, 128, dtype=np.float32).tobytes())
            (place / "new").rename(place / "beside.bin")
            change(daemon, {"cam0": entry})
            producer.send(frame(0).tobytes())
            np.testing.assert_array_equal(reader.frames(1, 64, np.float32)[0], np.arange(64, 128))


@needs_library
def test_after_a_change_an_upgrade_and_a_fault_go_on_with_it(place):
    strikes = {"fault": {"kind": "illegal", "at": 2, "again": "no"}}
    models = {"line": {"file": str(model_file(place))}}
    entries = {"cam0": runs(), "faulty": pipeline(FORMAT, stages=[strikes])}
    with Daemon(place, entries, models=models, env=WITH) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            def computes(factor):
                producer.send(np.ones(MODEL_SIZE, np.float32).tobytes())
                assert (reader.frames(1, MODEL_SIZE, np.float32) == factor + 1).all()
            computes(2)
            model_file(place, factor=3.0)
            change(daemon, entries, models=models)
            computes(3)
            daemon.command("/v1/upgrade")
            wait_until(lambda: daemon.status()["handovers"]["upgrade"] == 1, "the other process took over")
            computes(3)
            with daemon.reader("faulty") as others, daemon.producer("faulty") as other:
                other.send(np.concatenate([frame(number) for number in range(4)]).tobytes())
                others.read(4 * BYTES)
            computes(3)
        wait_until(lambda: daemon.status()["handovers"]["fault"] >= 1, "the fault is told")


@needs_library
def test_what_was_open_for_models_that_nobody_runs_is_closed(place):
    """Also where another pipeline of the same configuration goes on as it is."""
    models = {"line": {"file": str(model_file(place))}}
    entries = {"cam0": runs(), "other": adds(1)}
    with Daemon(place, entries, models=models, env=WITH) as daemon:
        for factor in (3.0, 4.0):
            model_file(place, factor=factor)
            change(daemon, entries, models=models)
        wait_until(lambda: not any("(deleted)" in name and ".onnx" in name for name in open_files(daemon)),
                   lambda: f"their files are closed: {open_files(daemon)}")


def test_a_hang_while_other_stages_wait_for_it(place):
    """What is told of the frame is where it was, and not where it would have gone."""
    hang = {"fault": {"kind": "hang", "at": 1, "again": "no"}}
    keys = {"gpu": {"backend": BACKEND, "timeout": "1s", "faults": "60/min"}}
    with Daemon(place, {"cam0": pipeline(FORMAT, stages=[hang])}, **keys) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(frame(0).tobytes() + frame(1).tobytes())
            assert reader.frames(1, SIZE, np.float32)[0, 0] == 0
            daemon.write({"cam0": adds(1)}, **keys)
            daemon.signal(signal.SIGHUP)
            assert reader.frames(1, SIZE, np.float32)[0, 0] in (1, 2)
            assert "was on the device (stage fault)" in daemon.log, daemon.log
            wait_until(lambda: daemon.status()["reloads"]["done"] == 1, lambda: f"it goes on with them\n{daemon.log}")
            producer.send(frame(2).tobytes())
            assert reader.frames(1, SIZE, np.float32)[0, 0] == 3
        daemon.account(came=3, emitted=3)


def test_a_reader_that_stalls_keeps_no_change_waiting(place):
    """Nor does a frame that has come in part: results of both versions wait side by side."""
    with Daemon(place, {"cam0": adds(1, slots=4)}) as daemon:
        with daemon.producer() as producer:
            producer.send(frame(0).tobytes() + frame(1).tobytes() + frame(2).tobytes()[:100])
            daemon.wait_view("two results wait for a reader", lambda view: view["frames"]["in"] == 3)
            change(daemon, {"cam0": adds(0.5, slots=4)})
            producer.send(frame(2).tobytes()[100:] + frame(3).tobytes())
            with daemon.reader() as reader:
                np.testing.assert_array_equal(reader.frames(4, SIZE, np.float32)[:, 0], [1, 2, 2.5, 3.5])


def test_paused_it_stays_paused(place):
    with Daemon(place, {"cam0": adds(1)}) as daemon:
        daemon.command("/v1/pipelines/cam0/pause")
        change(daemon, {"cam0": adds(2)})
        assert daemon.view()["state"] == "paused"
        daemon.command("/v1/pipelines/cam0/resume")
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(frame(0).tobytes())
            assert reader.frames(1, SIZE, np.float32)[0, 0] == 2


def test_memory_that_a_client_has_stays_its_own(place):
    """A client with shared memory goes on, and the next one, who gets other memory, meets the new stages too."""
    def entry(offset):
        return adds(offset, source={"protocol": "native", "clients": 2}, sink={"reply": True})
    with Daemon(place, {"cam0": entry(1)}) as daemon:
        def computes(client, offset):
            client.submit(0, frame(5).tobytes())
            slot, _, _ = client.completion()
            assert client.payload(slot) == frame(5 + offset).tobytes()
            client.take()
        path = daemon.path("cam0", "source")
        with Shared(path) as client:
            computes(client, 1)
            change(daemon, {"cam0": entry(2)})
            computes(client, 2)
            change(daemon, {"cam0": entry(3)})
            computes(client, 3)
        change(daemon, {"cam0": entry(4)})
        with Shared(path) as client, Shared(path) as other:
            computes(client, 4)
            computes(other, 4)


def test_stages_may_come_and_go(place):
    with Daemon(place, {"cam0": adds(1)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            def gives(value):
                producer.send(frame(0).tobytes())
                assert reader.frames(1, SIZE, np.float32)[0, 0] == value
            gives(1)
            assert daemon.view()["latency_us"]["kernel"]["count"] == 1 or BACKEND == "cuda"  # where not every frame has times
            change(daemon, {"cam0": pipeline(FORMAT)})
            assert daemon.view()["latency_us"]["kernel"]["count"] == 0  # what is measured is of the stages in force
            gives(0)
            change(daemon, {"cam0": pipeline(FORMAT, stages=[{"affine": {"scale": 1, "offset": 5}}] * 3)})
            gives(15)


def test_other_results_disconnect(place):
    gray = {"pixels": "gray", "width": 64, "height": 48}
    with Daemon(place, {"cam0": pipeline(gray)}) as daemon:
        with daemon.reader() as reader:
            daemon.write({"cam0": pipeline(gray, stages=["stats"])})
            answer = daemon.command("/v1/reload")
            assert (answer["changed"], answer["in_place"]) == (["cam0"], [])
            assert reader.rest() == b""


def test_the_background_of_motion_begins_anew(place):
    gray = {"pixels": "gray", "width": 64, "height": 48}

    def entry(threshold):
        return pipeline(gray, stages=[{"motion": {"threshold": threshold}}])
    with Daemon(place, {"cam0": entry(20)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(bytes(64 * 48) + b"\x90" * (64 * 48))
            assert reader.frames(2, 64 * 48).max(axis=1).tolist() == [0, 255]
            change(daemon, {"cam0": entry(30)})
            producer.send(b"\x90" * (64 * 48))  # differs from nothing
            assert reader.frames(1, 64 * 48).max() == 0


def test_labels(place):
    """Lines of results that wait have the names of their time."""
    names = place / "labels.txt"
    entry = pipeline({"dtype": "float32", "shape": [3]}, stages=[{"top": {"k": 1, "labels": str(names)}}],
                     slots=4, sink={"protocol": "json"})
    scores = np.array([0, 1, 0], np.float32).tobytes()

    def write(*labels):
        fresh = place / "fresh"
        fresh.write_text("".join(f"{label}\n" for label in labels))
        fresh.rename(names)
    write("cat", "zebra", "dog")
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.producer() as producer:
            producer.send(scores)
            daemon.wait_view("a result waits", lambda view: view["frames"]["in"] == 1)
            for label in ("horse", "mouse"):
                write("cat", label, "dog")
                change(daemon, {"cam0": entry})
                producer.send(scores)
            with daemon.reader() as reader:
                lines = b""
                while lines.count(b"\n") < 3:
                    lines += reader.read(1)
                told = [json.loads(line)["classes"][0]["label"] for line in lines.splitlines()]
                assert told == ["zebra", "horse", "mouse"]
                write("cat", "hippopotamus", "dog")  # there is no room for such a line
                daemon.write({"cam0": entry})
                answer = daemon.command("/v1/reload")
                assert (answer["changed"], answer["in_place"]) == (["cam0"], [])


@pytest.mark.skipif(BACKEND == "cuda", reason="what it builds computes on the CPU backend alone")
def test_a_library(place):
    """Put in the place of the other, which is loaded, by a new name of the same file or by the same."""
    gray = {"pixels": "gray", "width": 64, "height": 48}
    entry = pipeline(gray, stages=[{"library": {"file": str(place / "own.so")}}])

    def write(value):
        build(place, table(run=f"memset(call->output, {value}, 64 * 48)"), name="fresh.so")
        (place / "fresh.so").rename(place / "own.so")
    write(1)
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            for value in (1, 2, 3):
                write(value)
                if value > 1:
                    change(daemon, {"cam0": entry})
                producer.send(bytes(64 * 48))
                assert set(reader.read(64 * 48)) == {value}
            (place / "fresh.so").write_text("no library")
            (place / "fresh.so").rename(place / "own.so")
            code, answer = daemon.post("/v1/reload")
            assert code == 400 and "own.so cannot be loaded" in answer["error"], answer
            producer.send(bytes(64 * 48))
            assert set(reader.read(64 * 48)) == {3}
            write(4)
            change(daemon, {"cam0": entry})
            producer.send(bytes(64 * 48))
            assert set(reader.read(64 * 48)) == {4}
