"""Raw frames through Unix sockets: every byte, in order, whatever the writes look like."""

import numpy as np
import pytest

from harness import Background, Daemon, numbered, pipeline, whole

GRAY = {"pixels": "gray", "width": 32, "height": 16}
INVERT = {"affine": {"scale": -1.0, "offset": 255.0}}


def through(daemon, frames, shape=None, dtype=np.uint8, send=None):
    """Sends all frames on one connection and returns as many results."""
    with daemon.reader() as reader, daemon.producer() as producer:
        sending = Background(send or producer.send, frames.tobytes())
        results = reader.frames(len(frames), shape or frames.shape[1:], dtype)
        sending.join()
    daemon.account(came=len(frames), emitted=len(frames))
    return results


def test_gray_is_transformed_bit_exactly(place):
    frames = np.random.default_rng(1).integers(0, 256, (100, 16, 32), np.uint8)
    with Daemon(place, {"cam0": pipeline(GRAY, stages=[INVERT])}) as daemon:
        np.testing.assert_array_equal(through(daemon, frames), 255 - frames)


def test_rgb24_is_transformed_bit_exactly(place):
    frames = np.random.default_rng(2).integers(0, 256, (20, 37, 53, 3), np.uint8)
    entry = pipeline({"pixels": "rgb24", "width": 53, "height": 37}, stages=[INVERT])
    with Daemon(place, {"cam0": entry}) as daemon:
        np.testing.assert_array_equal(through(daemon, frames), 255 - frames)


def test_float32_tensors_agree_with_numpy(place):
    frames = np.random.default_rng(3).standard_normal((50, 3, 5, 7)).astype(np.float32)
    entry = pipeline({"dtype": "float32", "shape": [3, 5, 7]}, stages=[{"affine": {"scale": 2.0, "offset": 1.0}}])
    with Daemon(place, {"cam0": entry}) as daemon:
        results = through(daemon, frames, dtype=np.float32)
    np.testing.assert_array_equal(results, frames * np.float32(2) + np.float32(1))


def test_two_stages_run_in_their_order(place):
    frames = np.random.default_rng(4).integers(0, 60, (10, 16, 32), np.uint8)
    stages = [{"affine": {"scale": 2.0, "offset": 1.0}}, {"affine": {"scale": 2.0, "offset": 0.0}}]
    with Daemon(place, {"cam0": pipeline(GRAY, stages=stages)}) as daemon:
        np.testing.assert_array_equal(through(daemon, frames), (frames * 2 + 1) * 2)


def test_no_stage_at_all_passes_frames_unchanged(place):
    frames = numbered(20, 512)
    with Daemon(place, {"cam0": pipeline(GRAY)}) as daemon:
        np.testing.assert_array_equal(through(daemon, frames), frames)


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 16])
@pytest.mark.parametrize("completion", ["callback", "spin"])
def test_many_small_frames_with_any_number_of_slots(place, slots, completion):
    frames = numbered(1000, 64)
    entry = pipeline({"dtype": "uint8", "shape": [64]}, slots=slots, completion=completion)
    with Daemon(place, {"cam0": entry}) as daemon:
        np.testing.assert_array_equal(through(daemon, frames), frames)


def test_frames_of_one_byte(place):
    frames = np.arange(500, dtype=np.uint8).reshape(500, 1)
    with Daemon(place, {"cam0": pipeline({"dtype": "uint8", "shape": [1]})}) as daemon:
        np.testing.assert_array_equal(through(daemon, frames), frames)


def test_big_frames(place):
    size = 8 << 20
    frames = np.stack([whole(number, size) for number in range(6)])
    entry = pipeline({"dtype": "uint8", "shape": [size]}, slots=3)
    with Daemon(place, {"cam0": entry}) as daemon:
        np.testing.assert_array_equal(through(daemon, frames), frames)


@pytest.mark.parametrize("sizes", [[1], [511, 513], [3, 1021, 7], [5000]], ids=str)
def test_writes_end_anywhere(place, sizes):
    frames = numbered(8 if sizes == [1] else 64, 512)
    with Daemon(place, {"cam0": pipeline(GRAY, stages=[INVERT])}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            sending = Background(producer.send_split, frames.tobytes(), sizes)
            results = reader.frames(len(frames), 512)
            sending.join()
        daemon.account(came=len(frames), emitted=len(frames))
    np.testing.assert_array_equal(results, 255 - frames)


def test_producers_one_after_the_other_share_one_account(place):
    with Daemon(place, {"cam0": pipeline(GRAY)}) as daemon:
        with daemon.reader() as reader:
            for turn in range(5):
                with daemon.producer() as producer:
                    frames = numbered(10, 512, first=turn * 10)
                    producer.send(frames.tobytes())
                    np.testing.assert_array_equal(reader.frames(10, 512), frames)
                daemon.wait_view("the producer has left", lambda view: view["sessions"] == 0)
        daemon.account(came=50, emitted=50)


def test_several_producers_at_once_share_a_sink_as_whole_results(place):
    """Results of several raw producers cannot be told apart on one sink, so this takes `reply`."""
    entry = pipeline(GRAY, source={"clients": 4}, sink={"reply": True}, stages=[INVERT])
    with Daemon(place, {"cam0": entry}) as daemon:
        clients = [daemon.producer() for _ in range(4)]
        streams = [numbered(50, 512, first=1000 * index) for index in range(4)]
        sending = [Background(client.send, stream.tobytes()) for client, stream in zip(clients, streams)]
        for client, stream in zip(clients, streams):
            results = np.frombuffer(client.read(stream.size), np.uint8).reshape(stream.shape)
            np.testing.assert_array_equal(results, 255 - stream)
        for thread in sending:
            thread.join()
        daemon.account(came=200, emitted=200)
        for client in clients:
            client.close()


def test_complete_frames_survive_their_producer(place):
    """All is sent and the connection closed before anybody reads: nothing may be lost with a lossless sink."""
    frames = numbered(40, 512)
    with Daemon(place, {"cam0": pipeline(GRAY)}) as daemon:
        with daemon.producer() as producer:
            producer.send(frames.tobytes())
        with daemon.reader() as reader:
            np.testing.assert_array_equal(reader.frames(40, 512), frames)
        daemon.account(came=40, emitted=40)


def test_pipelines_do_not_mix(place):
    entries = {name: pipeline(GRAY, stages=[INVERT] if name == "cam1" else []) for name in ("cam0", "cam1", "cam2")}
    frames = {name: numbered(30, 512, first=100 * index) for index, name in enumerate(entries)}
    with Daemon(place, entries, lanes=2) as daemon:
        readers = {name: daemon.reader(name) for name in entries}
        producers = {name: daemon.producer(name) for name in entries}
        for name, producer in producers.items():
            producer.send(frames[name].tobytes())
        for name, reader in readers.items():
            expected = 255 - frames[name] if name == "cam1" else frames[name]
            np.testing.assert_array_equal(reader.frames(30, 512), expected)
            daemon.account(name, came=30, emitted=30)
        for client in [*readers.values(), *producers.values()]:
            client.close()
