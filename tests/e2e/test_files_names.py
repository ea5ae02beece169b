"""Files under several names, and names of FIFOs that somebody removes while the daemon has them."""

import json
import os
import time

import pytest

from harness import Background, Daemon, complete, numbered, pace, pipeline, run_framed

GRAY = {"pixels": "gray", "width": 32, "height": 16}
SIZE = 512


def write_config(place, entries):
    file = place / "framed.yaml"
    file.write_text(json.dumps(complete(place, entries)))
    return file


# -- one file under several names ---------------------------------------------------------------------------------


def hard_link(place, name, other):
    (place / name).touch()
    os.link(place / name, place / other)


def dangling_link(place, name, other):
    (place / other).symlink_to(place / name)


def pipe(place, name, other):
    os.mkfifo(place / name)
    dangling_link(place, name, other)


def copying(place, source, sink):
    return pipeline(GRAY, source={"file": str(place / source)}, sink={"file": str(place / sink)})


@pytest.mark.parametrize("link", [hard_link, dangling_link, pipe])
def test_two_pipelines_do_not_write_to_one_file(place, link):
    """They would write over each other's results, and count them all as emitted."""
    (place / "in").write_bytes(numbered(2, SIZE).tobytes())
    link(place, "out", "other")
    entries = {"cam0": copying(place, "in", "out"), "cam1": copying(place, "in", "other")}
    done = run_framed("-c", write_config(place, entries))
    assert done.returncode == 78 and "'cam1' are one file" in done.stderr, done
    done = run_framed("--check", "-c", write_config(place, entries))
    assert done.returncode == (78 if (place / "other").exists() else 0), done


@pytest.mark.parametrize("name", ["hard", "soft"])
def test_a_pipeline_does_not_read_its_own_results(place, name):
    """It would never end, and fill the disk. Other spellings of one path are found in the configuration itself."""
    (place / "in").write_bytes(numbered(2, SIZE).tobytes())
    os.link(place / "in", place / "hard")
    (place / "soft").symlink_to(place / "in")
    done = run_framed("-c", write_config(place, {"cam0": pipeline(
        GRAY, source={"file": str(place / "in")}, sink={"file": f"{place}/{name}"})}))
    assert done.returncode == 78 and "its own results" in done.stderr, done
    assert (place / "in").stat().st_size == 2 * SIZE


def test_two_pipelines_do_not_read_from_one_fifo(place):
    """Each would get parts of frames. A file may be read by many."""
    os.mkfifo(place / "in")
    done = run_framed("-c", write_config(place, {name: copying(place, "in", name) for name in ("cam0", "cam1")}))
    assert done.returncode == 78 and "parts of frames" in done.stderr, done
    os.unlink(place / "in")
    (place / "in").write_bytes(numbered(2, SIZE).tobytes())
    done = run_framed("-c", write_config(place, {name: copying(place, "in", name) for name in ("cam0", "cam1")}))
    assert done.returncode == 0 and (place / "cam1").stat().st_size == 2 * SIZE, done


def test_a_reload_does_not_let_two_pipelines_write_to_one_file(place):
    (place / "other").symlink_to(place / "out")
    entries = {"cam0": pipeline(GRAY, sink={"file": str(place / "out")})}
    with Daemon(place, entries) as daemon:
        with daemon.producer() as producer:
            daemon.write({**entries, "cam1": pipeline(GRAY, sink={"file": str(place / "other")})})
            code, answer = daemon.post("/v1/reload")
            assert code == 400 and "'cam1' are one file" in answer["error"] and "another file" in answer["remedy"], answer
            producer.send(numbered(2, SIZE).tobytes())
            daemon.account(came=2, emitted=2)
            daemon.write({"cam1": pipeline(GRAY, sink={"file": str(place / "other")})})
            daemon.command("/v1/reload")
        with daemon.producer("cam1") as producer:
            producer.send(numbered(1, SIZE, first=2).tobytes())
            daemon.account("cam1", came=1, emitted=1)
    assert (place / "out").read_bytes() == numbered(3, SIZE).tobytes()


# -- FIFOs without a name -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_reader", [True, False])
@pytest.mark.parametrize("there", [None, "file", "folder"])
def test_a_fifo_sink_waits_for_one_to_be_made_anew(place, has_reader, there):
    """What is in its place is not written to, and the daemon does not end for want of it."""
    fifo = place / "out"
    os.mkfifo(fifo)
    with Daemon(place, {"cam0": pipeline(GRAY, sink={"file": str(fifo)})}) as daemon, daemon.producer() as producer:
        if has_reader:
            with open(fifo, "rb", buffering=0) as reader:
                producer.send(numbered(1, SIZE).tobytes())
                assert reader.read(SIZE) == numbered(1, SIZE).tobytes()
                os.unlink(fifo)
        else:
            os.unlink(fifo)
        if there == "file":
            fifo.write_bytes(b"of somebody")
        elif there == "folder":
            fifo.mkdir()
        producer.send(numbered(1, SIZE, first=1).tobytes())
        daemon.wait_view("a result waits", lambda view: view["frames"]["in_flight"] == 1 and view["readers"] == 0)
        time.sleep(pace(0.5))  # some tries
        assert daemon.view()["readers"] == 0 and fifo.exists() == bool(there)
        if there == "file":
            assert fifo.read_bytes() == b"of somebody"
        if there:
            os.rename(fifo, place / "other")
        os.mkfifo(fifo)
        with open(fifo, "rb", buffering=0) as reader:
            assert reader.read(SIZE) == numbered(1, SIZE, first=1).tobytes()


@pytest.mark.parametrize("there", [None, "file"])
def test_a_fifo_source_waits_for_one_to_be_made_anew(place, there):
    fifo = place / "in"
    os.mkfifo(fifo)
    entry = pipeline(GRAY, source={"file": str(fifo)}, sink={"file": str(place / "out")})
    with Daemon(place, {"cam0": entry}) as daemon:
        with open(fifo, "wb", buffering=0) as writer:
            writer.write(numbered(1, SIZE).tobytes())
            daemon.account(came=1, emitted=1)
            os.unlink(fifo)
            if there:
                fifo.write_bytes(numbered(1, SIZE).tobytes())
        daemon.wait_log("the FIFO cannot be opened for the next writer")
        if there:
            os.unlink(fifo)
        os.mkfifo(fifo)
        daemon.post("/v1/upgrade")
        writing = Background(fifo.write_bytes, numbered(1, SIZE, first=1).tobytes())
        daemon.account(came=2, emitted=2)
        writing.join()
    assert (place / "out").read_bytes() == numbered(2, SIZE).tobytes()


@pytest.mark.parametrize("folder", ["link", "rec/../rec", "rec"])
def test_a_folder_of_segments_has_two_names(place, folder):
    """`most` of one pipeline would remove the segments of the other one."""
    (place / "rec").mkdir()
    (place / "link").symlink_to(place / "rec")
    entries = {"cam0": pipeline(GRAY, sink={"file": f"{place}/rec/%Y.raw", "rotate": {"size": "1MiB"}}),
               "cam1": pipeline(GRAY, record={"file": f"{place}/{folder}/%Y-%m.raw"})}
    done = run_framed("--check", "-c", write_config(place, entries))
    assert done.returncode == 78 and "could make files with" in done.stderr, done
    entries["cam1"]["record"]["file"] = f"{place}/{folder}/cam1-%Y.raw"
    assert run_framed("--check", "-c", write_config(place, entries)).returncode == 0
