"""What is told of a frame's time in a model: a step of its own in status, metrics and traces."""

import subprocess

import numpy as np
import pytest

from harness import BACKEND, FRAMECTL, Daemon, limit, pace, pipeline
from test_model import model, tensor, through, with_runtime
from test_trace import Asked

FRAMES = np.random.default_rng(5).standard_normal((600, 1, 3, 4, 5)).astype(np.float32)


def with_model(*before, **keys):
    return pipeline(tensor("float32", 3, 4, 5), slots=3, stages=[*before, model("line")], **keys)


@with_runtime
def test_the_model_is_a_step_of_its_own_within_the_stages(place):
    plain = pipeline(tensor("float32", 3, 4, 5), stages=[])
    with Daemon(place, {"cam0": with_model(), "cam1": plain}) as daemon:
        through(daemon, FRAMES, (1, 3, 4, 5), np.float32)
        latency, samples = daemon.view()["latency_us"], daemon.metrics()
        timed = latency["kernel"]["count"]
        assert 0 < latency["model"]["count"] == timed, latency
        assert 0 < latency["model"]["mean"] <= latency["kernel"]["mean"], latency
        assert f'framed_latency_seconds_count{{pipeline="cam0",step="model"}} {timed}\n' in samples
        served = daemon.view()["model"]["instances"]
        assert len(served) >= 2 and sum(served) == len(FRAMES), served
        assert f'framed_model_frames_total{{pipeline="cam0",instance="1"}} {served[0]}\n' in samples
        assert daemon.view("cam1")["model"] == {"file": None, "instances": [], "batches": []}
        assert daemon.view("cam1")["latency_us"]["model"]["count"] == 0
        for name, has in (("cam0", True), ("cam1", False)):
            text = subprocess.run([FRAMECTL, "-s", daemon.socket, "status", name], capture_output=True, text=True,
                                  timeout=limit(20), check=True).stdout
            assert ("\n  model " in text) == has, text


@with_runtime
def test_a_trace_names_the_instance_that_ran_each_frame(place):
    with Daemon(place, {"cam0": with_model()}) as daemon:
        asked = Asked(daemon, pace(2))
        through(daemon, FRAMES, (1, 3, 4, 5), np.float32)
        trace = asked.result()
    models = {event["args"]["frame"]: event for event in trace.spans("model", "stream")}
    kernels = {event["args"]["frame"]: event for event in trace.spans("kernel", "stream")}
    assert 0 < len(models) == len(kernels)
    assert len(models) == len(FRAMES) or BACKEND == "cuda"  # where not every frame has times
    assert {event["args"]["instance"] for event in models.values()} <= {1, 2, 3}
    for number, event in models.items():
        assert kernels[number]["ts"] <= event["ts"] and event["dur"] <= kernels[number]["dur"], (event, kernels[number])


@with_runtime
@pytest.mark.skipif(BACKEND == "cuda", reason="on a GPU it takes no time")
def test_frames_for_a_busy_model_wait_where_their_deadline_is_seen(place):
    entry = pipeline(tensor("float32", 65536), slots=3, stages=[model("slow")], deadline="1ms", sink={"overload": "drop"})
    with Daemon(place, {"cam0": entry}) as daemon, daemon.reader(), daemon.producer() as producer:
        producer.send(np.zeros((100, 65536), np.float32).tobytes())
        view = daemon.wait_view("some are late", lambda view: view["frames"]["in"] == 100 and view["frames"]["dropped"]["late"] > 0)
    assert view["latency_us"]["queue"]["count"] > 0, view
    assert view["overlap"]["bound_by"] in ("model", "processors", "host"), view["overlap"]
