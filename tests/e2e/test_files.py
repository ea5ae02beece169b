"""Files, FIFOs and standard streams as source and sink."""

import json
import os
import subprocess

import numpy as np
import pytest

from harness import (BINARY, Background, Daemon, Reader, complete, environment, limit, numbered, pipeline, read_y4m,
                     require_whole, run_framed, wait_until, y4m_stream)

GRAY = {"pixels": "gray", "width": 32, "height": 16}
SIZE = 512
INVERT = {"affine": {"scale": -1.0, "offset": 255.0}}


def write_config(place, entries, **keys):
    file = place / "filter.yaml"
    file.write_text(json.dumps(complete(place, entries, **keys)))
    return file


def filtered(place, entry, data):
    """Runs framed as a filter and returns its output; it must end by itself with 0."""
    done = run_framed("-c", write_config(place, {"cam0": entry}), input=data)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout, done.stderr.decode()


# -- standard input and output -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 300])
def test_filter_ends_with_its_input(place, count):
    frames = np.random.default_rng(7).integers(0, 256, (count, SIZE), np.uint8)
    entry = pipeline(GRAY, source={"file": "-"}, sink={"file": "-"}, stages=[INVERT])
    output, _ = filtered(place, entry, frames.tobytes())
    assert output == (255 - frames).tobytes()


def test_filter_turns_raw_into_y4m(place):
    frames = numbered(20, SIZE)
    entry = pipeline(GRAY, source={"file": "-"}, sink={"file": "-", "protocol": "y4m"})
    output, _ = filtered(place, entry, frames.tobytes())
    words, results = read_y4m(output, SIZE)
    assert {"W32", "H16", "Cmono"} <= set(words)
    np.testing.assert_array_equal(results, frames)


def test_filter_turns_y4m_into_raw(place):
    frames = numbered(20, SIZE)
    entry = pipeline(GRAY, source={"file": "-", "protocol": "y4m"}, sink={"file": "-"})
    output, _ = filtered(place, entry, y4m_stream(frames, 32, 16))
    assert output == frames.tobytes()


def test_filter_drops_a_truncated_last_frame(place):
    frames = numbered(3, SIZE)
    entry = pipeline(GRAY, source={"file": "-"}, sink={"file": "-"})
    output, log = filtered(place, entry, frames.tobytes()[:-1])
    assert output == frames[:2].tobytes()
    assert "invalid" in log, log


def test_filter_between_regular_files(place):
    """Standard input and output may be files as well as pipes."""
    frames = numbered(200, SIZE)
    (place / "in").write_bytes(frames.tobytes())
    file = write_config(place, {"cam0": pipeline(GRAY, source={"file": "-"}, sink={"file": "-"}, stages=[INVERT])})
    with open(place / "in", "rb") as source, open(place / "out", "wb") as sink:
        subprocess.run([BINARY, "-c", file], stdin=source, stdout=sink, check=True, env=environment(), timeout=limit(30))
    assert (place / "out").read_bytes() == (255 - frames).tobytes()


# -- regular files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [1, 3])
def test_file_to_file(place, slots):
    frames = numbered(100, SIZE)
    (place / "in").write_bytes(frames.tobytes())
    entry = pipeline(GRAY, source={"file": str(place / "in")}, sink={"file": str(place / "out")}, slots=slots,
                     stages=[INVERT])
    keeper = pipeline(GRAY)  # a listening pipeline: the daemon goes on after the file's end
    with Daemon(place, {"cam0": entry, "cam1": keeper}) as daemon:
        daemon.account(came=100, emitted=100)
    assert (place / "out").read_bytes() == (255 - frames).tobytes()


def test_a_file_sink_goes_on_where_it_ended(place):
    sink = {"file": str(place / "out")}
    for turn in range(2):
        with Daemon(place, {"cam0": pipeline(GRAY, sink=dict(sink))}) as daemon:
            with daemon.producer() as producer:
                producer.send(numbered(10, SIZE, first=10 * turn).tobytes())
            daemon.account(came=10, emitted=10)
    assert require_whole((place / "out").read_bytes(), SIZE) == list(range(20))


def test_a_y4m_file_is_continued_at_another_rate(place):
    """Its header stays as it is. A file at a rate of its own says that one to its results."""
    (place / "in").write_bytes(numbered(2, SIZE).tobytes())
    sink = {"file": str(place / "out"), "protocol": "y4m"}
    for rate in [1000, 2000]:
        entry = pipeline(GRAY, source={"file": str(place / "in"), "rate": rate}, sink=dict(sink))
        assert run_framed("-c", write_config(place, {"cam0": entry})).returncode == 0
    words, results = read_y4m((place / "out").read_bytes(), SIZE)
    assert "F1000:1" in words and len(results) == 4, words


def test_a_y4m_file_of_interlaced_pictures_is_continued(place):
    said = ["W32", "H16", "F25:1", "It", "A16:11", "Cmono", "XCOLORRANGE=FULL"]
    (place / "in").write_bytes(y4m_stream(numbered(2, SIZE), 32, 16, parameters=said))
    entry = pipeline(GRAY, source={"file": str(place / "in"), "protocol": "y4m"},
                     sink={"file": str(place / "out"), "protocol": "y4m"})
    for _ in range(2):
        assert run_framed("-c", write_config(place, {"cam0": entry})).returncode == 0
    words, results = read_y4m((place / "out").read_bytes(), SIZE)
    assert words == said and len(results) == 4, words


@pytest.mark.parametrize("header", ["YUV4MPEG2 W32 H17 F25:1 Ip A1:1 Cmono", "YUV4MPEG2 W32 H16 F25:1 A1:1 Ip Cmono", "YUV4MPEG2",
                                    "x" * 2000])
def test_a_file_that_begins_otherwise_is_not_continued(place, header):
    (place / "out").write_text(header + "\n")
    entry = pipeline(GRAY, sink={"file": str(place / "out"), "protocol": "y4m"})
    with Daemon(place, {"cam0": entry}) as daemon:
        daemon.wait_view("it waits", lambda view: "is no y4m file of this format" in (view["waits_for"] or ""))
    assert (place / "out").read_text() == header + "\n"


@pytest.mark.parametrize("protocol", ["raw", "y4m"])
def test_a_file_that_ends_within_a_result_is_not_continued(place, protocol):
    """What followed would be torn for whoever reads it; the file stays as it is."""
    whole_file = numbered(2, SIZE).tobytes()
    if protocol == "y4m":
        with Daemon(place, {"cam0": pipeline(GRAY, sink={"file": str(place / "out"), "protocol": "y4m"})}) as daemon:
            with daemon.producer() as producer:
                producer.send(whole_file)
            daemon.account(came=2, emitted=2)
        whole_file = (place / "out").read_bytes()
    (place / "out").write_bytes(whole_file + b"torn")
    entry = pipeline(GRAY, sink={"file": str(place / "out"), "protocol": protocol})
    with Daemon(place, {"cam0": entry}) as daemon:
        daemon.wait_view("it waits", lambda view: "4 bytes after the last whole one" in (view["waits_for"] or ""))
    assert (place / "out").read_bytes() == whole_file + b"torn"


def test_truncated_last_frame_of_a_file(place):
    (place / "in").write_bytes(numbered(3, SIZE).tobytes() + b"x" * 100)
    entry = pipeline(GRAY, source={"file": str(place / "in")}, sink={"file": str(place / "out")})
    with Daemon(place, {"cam0": entry, "cam1": pipeline(GRAY)}) as daemon:
        daemon.account(came=4, emitted=3, invalid=1)
    assert (place / "out").read_bytes() == numbered(3, SIZE).tobytes()


def test_loop_repeats_the_file_in_order(place):
    (place / "in").write_bytes(numbered(5, SIZE).tobytes())
    entry = pipeline(GRAY, source={"file": str(place / "in"), "loop": True})
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as reader:
            results = reader.frames(23, SIZE)
            np.testing.assert_array_equal(results, numbered(5, SIZE)[np.arange(23) % 5])
            daemon.command("/v1/pipelines/cam0/pause")
            rest = Background(reader.rest)
            daemon.quiet()
            daemon.finish()
            rest.join()


def test_y4m_loop_reads_the_header_each_time(place):
    (place / "in").write_bytes(y4m_stream(numbered(5, SIZE), 32, 16))
    entry = pipeline(GRAY, source={"file": str(place / "in"), "loop": True, "protocol": "y4m"})
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as reader:
            np.testing.assert_array_equal(reader.frames(17, SIZE), numbered(5, SIZE)[np.arange(17) % 5])
            daemon.command("/v1/pipelines/cam0/pause")
            rest = Background(reader.rest)
            daemon.quiet()
            daemon.finish()
            rest.join()


@pytest.mark.parametrize("data, account", [
    (b"", {"in": 0, "emitted": 0}),
    (b"torn", {"in": 1, "emitted": 0, "invalid": 1}),
    (numbered(2, SIZE).tobytes() + b"torn", {"in": 3, "emitted": 2, "invalid": 1}),
], ids=["empty", "too short", "torn end"])
@pytest.mark.parametrize("rate", [0, 1000])
def test_a_loop_over_a_file_without_a_whole_end_is_over(place, data, account, rate):
    """It would go round for ever, or join a torn frame with the first."""
    (place / "in").write_bytes(data)
    source = {"file": str(place / "in"), "loop": True, **({"rate": rate} if rate else {})}
    with Daemon(place, {"cam0": pipeline(GRAY, source=source, sink={"file": str(place / "out")})}, ready=False) as daemon:
        daemon.ends(0)
        assert daemon.final_account() == account


def test_a_folder_as_source_is_refused_by_name(place):
    (place / "folder").mkdir()
    entry = pipeline(GRAY, source={"file": str(place / "folder")}, sink={"file": str(place / "out")})
    done = run_framed("-c", write_config(place, {"cam0": entry}))
    assert done.returncode == 78 and str(place / "folder") in done.stderr, (done.returncode, done.stderr)


def test_rate_paces_a_file(place):
    """At 5 frames a second two frames cannot both have come before the second status answer is asked for: the
    file's 1,000 frames would be through long before. Only the order of events is compared, not the time."""
    (place / "in").write_bytes(numbered(1000, SIZE).tobytes())
    entry = pipeline(GRAY, source={"file": str(place / "in"), "rate": 50}, sink={"file": str(place / "out")})
    with Daemon(place, {"cam0": entry}) as daemon:
        seen = daemon.wait_view("frames come", lambda view: view["frames"]["emitted"] >= 5)["frames"]["in"]
        assert seen < 1000
        daemon.wait_view("more frames come", lambda view: view["frames"]["emitted"] > seen)
    numbers = require_whole((place / "out").read_bytes(), SIZE)
    assert numbers == list(range(len(numbers))) and len(numbers) < 1000


@pytest.mark.parametrize("rate", [1e-12, 1e-300], ids=str)
def test_a_rate_that_is_next_to_nothing_is_no_haste(place, rate):
    """The second frame is due after whoever asks is gone, and does not come while another pipeline has a thousand."""
    (place / "in").write_bytes(numbered(10, SIZE).tobytes())
    slow = pipeline(GRAY, source={"file": str(place / "in"), "rate": rate}, sink={"file": str(place / "out")})
    with Daemon(place, {"cam0": slow, "cam1": pipeline(GRAY)}) as daemon:
        with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
            read = Background(reader.frames, 1000, SIZE)
            producer.send(numbered(1000, SIZE).tobytes())
            read.join()
        assert daemon.wait_view("the first frame came", lambda view: view["frames"]["emitted"] >= 1)["frames"]["in"] == 1


def test_file_into_a_socket_waits_for_its_reader(place):
    (place / "in").write_bytes(numbered(50, SIZE).tobytes())
    entry = pipeline(GRAY, source={"file": str(place / "in")})
    with Daemon(place, {"cam0": entry, "cam1": pipeline(GRAY)}) as daemon:
        daemon.wait_view("results wait", lambda view: view["waiting"] == "reader")
        with daemon.reader() as reader:
            np.testing.assert_array_equal(reader.frames(50, SIZE), numbered(50, SIZE))
        daemon.account(came=50, emitted=50)


def test_the_end_of_all_files_is_the_end_of_the_daemon(place):
    """Whatever its readers still have to take, they take it: nobody asked for an end within a limit."""
    (place / "in").write_bytes(numbered(3, SIZE).tobytes())
    entry = pipeline(GRAY, source={"file": str(place / "in")}, slots=4)
    with Daemon(place, {"cam0": entry}, drain_timeout="1ms") as daemon:
        daemon.wait_log("all sources have ended")
        begun = daemon.status()["uptime_s"]
        wait_until(lambda: daemon.status()["uptime_s"] > begun + 0.1, "the limit would have passed")
        with Reader(daemon.path("cam0", "sink")) as reader:
            np.testing.assert_array_equal(reader.frames(3, SIZE), numbered(3, SIZE))
            assert reader.rest() == b""
        daemon.ends(0)
        assert daemon.final_account() == {"in": 3, "emitted": 3}


# -- FIFOs -------------------------------------------------------------------------------------------------------------


def test_fifo_takes_writers_one_after_the_other(place):
    os.mkfifo(place / "fifo")
    entry = pipeline(GRAY, source={"file": str(place / "fifo")})
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as reader:
            for turn in range(4):
                frames = numbered(10, SIZE, first=10 * turn)
                with open(place / "fifo", "wb") as fifo:
                    fifo.write(frames.tobytes())
                np.testing.assert_array_equal(reader.frames(10, SIZE), frames)
        daemon.account(came=40, emitted=40)


def test_a_fifo_that_cannot_be_opened_for_a_while_takes_writers_again(place):
    fifo, away = place / "fifo", place / "away"
    os.mkfifo(fifo)
    with Daemon(place, {"cam0": pipeline(GRAY, source={"file": str(fifo)})}) as daemon:
        with daemon.reader() as reader:
            with open(fifo, "wb") as writer:
                writer.write(numbered(2, SIZE).tobytes())
                writer.flush()
                np.testing.assert_array_equal(reader.frames(2, SIZE), numbered(2, SIZE))
                fifo.rename(away)
            daemon.wait_log("the FIFO cannot be opened for the next writer")
            away.rename(fifo)
            with open(fifo, "wb") as writer:
                writer.write(numbered(2, SIZE).tobytes())
            np.testing.assert_array_equal(reader.frames(2, SIZE), numbered(2, SIZE))
        daemon.account(came=4, emitted=4)


def test_fifo_as_sink(place):
    os.mkfifo(place / "fifo")
    entry = pipeline(GRAY, sink={"file": str(place / "fifo")}, stages=[INVERT])
    with Daemon(place, {"cam0": entry}, ready=False) as daemon:
        with open(place / "fifo", "rb") as fifo:
            daemon.wait_ready()
            with daemon.producer() as producer:
                producer.send(numbered(10, SIZE).tobytes())
            assert fifo.read(10 * SIZE) == (255 - numbered(10, SIZE)).tobytes()
            daemon.account(came=10, emitted=10)


def test_a_writer_that_leaves_a_fifo_within_a_frame(place):
    """Its part is invalid and never becomes a part of the next writer's first frame."""
    os.mkfifo(place / "fifo")
    with Daemon(place, {"cam0": pipeline(GRAY, source={"file": str(place / "fifo")})}) as daemon:
        with daemon.reader() as reader:
            with open(place / "fifo", "wb") as fifo:
                fifo.write(numbered(2, SIZE).tobytes() + b"torn")
            daemon.wait_view("the part is dropped", lambda view: view["frames"]["dropped"]["invalid"] == 1)
            with open(place / "fifo", "wb") as fifo:
                fifo.write(numbered(2, SIZE, first=2).tobytes())
            np.testing.assert_array_equal(reader.frames(4, SIZE), numbered(4, SIZE))
        daemon.account(came=5, emitted=4, invalid=1)


def test_a_fifo_sink_waits_for_its_next_reader(place):
    os.mkfifo(place / "fifo")
    with Daemon(place, {"cam0": pipeline(GRAY, sink={"file": str(place / "fifo")})}) as daemon:
        with daemon.producer() as producer:
            for turn in range(3):
                producer.send(numbered(5, SIZE, first=5 * turn).tobytes())
                with open(place / "fifo", "rb") as fifo:
                    assert fifo.read(5 * SIZE) == numbered(5, SIZE, first=5 * turn).tobytes()
                    daemon.account(came=5 * (turn + 1), emitted=5 * (turn + 1))
                # Whoever opens it before the daemon has seen that nobody reads may meet the end of what it closes then.
                daemon.wait_view("the reader is gone", lambda view: view["readers"] == 0)
