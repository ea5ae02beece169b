"""Y4M in and out: any legal header, any split, and the programs that write it."""

import shutil
import subprocess

import numpy as np
import pytest

from harness import Background, Daemon, limit, numbered, pipeline, read_y4m, y4m_stream

WIDTH, HEIGHT = 32, 16
GRAY = {"pixels": "gray", "width": WIDTH, "height": HEIGHT}
YUV = {"pixels": "yuv420p", "width": WIDTH, "height": HEIGHT}
GRAY_BYTES = WIDTH * HEIGHT
YUV_BYTES = WIDTH * HEIGHT * 3 // 2
INVERT = {"affine": {"scale": -1.0, "offset": 255.0}}

needs = {tool: pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")
         for tool in ("ffmpeg", "gst-launch-1.0", "socat")}


def y4m_pipeline(format, **keys):
    return pipeline(format, source={"protocol": "y4m"}, sink={"protocol": "raw"}, **keys)


@pytest.mark.parametrize("words", [
    ["W32", "H16", "F30:1", "Ip", "A1:1", "Cmono"],
    ["Cmono", "W32", "H16", "Ip", "F30:1", "A1:1"],
    ["A0:0", "F30000:1001", "H16", "Cmono", "XCOLORRANGE=FULL", "XYSCSS=MONO", "W32"],
    ["H16", "Cmono", "W32"],
], ids=lambda words: words[0])
def test_header_parameters_in_any_order(place, words):
    frames = numbered(5, GRAY_BYTES)
    with Daemon(place, {"cam0": y4m_pipeline(GRAY)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(y4m_stream(frames, WIDTH, HEIGHT, parameters=words))
            np.testing.assert_array_equal(reader.frames(5, GRAY_BYTES), frames)
        daemon.account(came=5, emitted=5)


@pytest.mark.parametrize("colour", [None, "420", "420jpeg", "420mpeg2", "420paldv"])
def test_names_of_the_same_sampling(place, colour):
    """No colour at all means 4:2:0."""
    frames = numbered(3, YUV_BYTES)
    words = ["W32", "H16", "F25:1"] + ([f"C{colour}"] if colour else [])
    with Daemon(place, {"cam0": y4m_pipeline(YUV)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(y4m_stream(frames, WIDTH, HEIGHT, parameters=words))
            np.testing.assert_array_equal(reader.frames(3, YUV_BYTES), frames)
        daemon.account(came=3, emitted=3)


def test_frame_parameters_are_skipped(place):
    frames = numbered(5, GRAY_BYTES)
    with Daemon(place, {"cam0": y4m_pipeline(GRAY)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(y4m_stream(frames, WIDTH, HEIGHT, frame_parameters=" Ip XSOMETHING=1"))
            np.testing.assert_array_equal(reader.frames(5, GRAY_BYTES), frames)
        daemon.account(came=5, emitted=5)


TINY = {"pixels": "gray", "width": 2, "height": 2}
TINY_FRAMES = np.arange(6 * 2 * 2, dtype=np.uint8).reshape(6, 2 * 2)
TINY_STREAM = y4m_stream(TINY_FRAMES, 2, 2, parameters=["W2", "H2", "Cmono"])


@pytest.mark.parametrize("slots", [2, 3])
def test_frames_that_come_with_the_header(place, slots):
    """More of them than there are slots, in one piece, before the producer waits for their results."""
    tiny = pipeline(TINY, source={"protocol": "y4m"}, sink={"reply": True}, slots=slots)
    with Daemon(place, {"cam0": tiny}) as daemon:
        with daemon.producer() as producer:
            producer.send(TINY_STREAM)
            assert producer.read(TINY_FRAMES.nbytes) == TINY_FRAMES.tobytes()
        daemon.account(came=6, emitted=6)


@pytest.mark.parametrize("pauses", [False, True])
def test_frames_that_come_with_the_header_wait_for_a_reader(place, pauses):
    """They are not in the socket any more, from which nothing else comes when there are slots for them."""
    with Daemon(place, {"cam0": y4m_pipeline(TINY, slots=2)}) as daemon:
        with daemon.producer() as producer:
            producer.send(TINY_STREAM)
            daemon.wait_view("two results wait", lambda view: view["frames"]["in"] == 2 and view["waiting"] == "reader")
            if pauses:
                daemon.command("/v1/pipelines/cam0/pause")
            with daemon.reader() as reader:
                if pauses:
                    np.testing.assert_array_equal(reader.frames(2, 4), TINY_FRAMES[:2])
                    daemon.command("/v1/pipelines/cam0/drain")
                    daemon.command("/v1/pipelines/cam0/resume")
                rest = TINY_FRAMES[2 if pauses else 0:]
                np.testing.assert_array_equal(reader.frames(len(rest), 4), rest)
        daemon.account(came=6, emitted=6)


def test_header_split_at_every_byte(place):
    stream = y4m_stream(numbered(1, GRAY_BYTES), WIDTH, HEIGHT, frame_parameters=" Ip")
    head = len(stream) - GRAY_BYTES
    with Daemon(place, {"cam0": y4m_pipeline(GRAY)}) as daemon:
        with daemon.reader() as reader:
            for at in range(1, head + 1):
                daemon.wait_view("nobody is connected", lambda view: view["sessions"] == 0)
                with daemon.producer() as producer:
                    producer.send(stream[:at])
                    daemon.wait_view("the producer is taken", lambda view: view["sessions"] == 1)
                    producer.send(stream[at:])
                    np.testing.assert_array_equal(reader.frames(1, GRAY_BYTES), numbered(1, GRAY_BYTES))
        daemon.account(came=head, emitted=head)


def test_whole_stream_byte_by_byte(place):
    frames = numbered(3, GRAY_BYTES)
    with Daemon(place, {"cam0": y4m_pipeline(GRAY)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            sending = Background(producer.send_split, y4m_stream(frames, WIDTH, HEIGHT), [1])
            np.testing.assert_array_equal(reader.frames(3, GRAY_BYTES), frames)
            sending.join()
        daemon.account(came=3, emitted=3)


def test_a_header_alone_is_no_frame(place):
    with Daemon(place, {"cam0": y4m_pipeline(GRAY)}) as daemon:
        with daemon.producer() as producer:
            producer.send(y4m_stream([], WIDTH, HEIGHT))
            producer.finish()
            producer.rest()
        daemon.account(came=0)


def test_y4m_out_of_raw(place):
    frames = numbered(6, YUV_BYTES)
    entry = pipeline(YUV, sink={"protocol": "y4m"}, stages=[INVERT])
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as reader:
            with daemon.producer() as producer:
                producer.send(frames.tobytes())
            taking = Background(reader.rest)
            daemon.account(came=6, emitted=6)
            daemon.finish()
            words, results = read_y4m(taking.join(), YUV_BYTES)
    assert {"W32", "H16"} <= set(words) and any(word.startswith("C420") for word in words), words
    np.testing.assert_array_equal(results, 255 - frames)


def test_a_late_y4m_reader_gets_the_header_first(place):
    entry = pipeline(GRAY, sink={"protocol": "y4m", "overload": "drop"})
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(5, GRAY_BYTES).tobytes())
            daemon.account(came=5, unread=5)
            with daemon.reader() as reader:
                frames = numbered(5, GRAY_BYTES, first=5)
                producer.send(frames.tobytes())
                taking = Background(reader.rest)
                daemon.account(came=10, unread=5, emitted=5)
                daemon.finish()
                words, results = read_y4m(taking.join(), GRAY_BYTES)
    assert {"W32", "H16", "Cmono"} <= set(words)
    np.testing.assert_array_equal(results, frames)


def y4m_with_rate(frames, rate):
    return y4m_stream(frames, WIDTH, HEIGHT, parameters=["W32", "H16", "Cmono"] + ([f"F{rate}"] if rate else []))


@pytest.mark.parametrize("rate, said", [("30000:1001", "F30000:1001"), (None, "F25:1"), ("0:0", "F25:1")])
def test_the_results_have_the_producers_rate(place, rate, said):
    entry = pipeline(GRAY, source={"protocol": "y4m"}, sink={"protocol": "y4m"})
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as reader:
            with daemon.producer() as producer:
                producer.send(y4m_with_rate(numbered(3, GRAY_BYTES), rate))
            taking = Background(reader.rest)
            daemon.account(came=3, emitted=3)
            daemon.finish()
            words, results = read_y4m(taking.join(), GRAY_BYTES)
    assert said in words and len(results) == 3, words


@pytest.mark.parametrize("stages, size, kept", [
    ([], [32, 16], {"It", "A16:11", "C420paldv", "XCOLORRANGE=FULL"}),
    ([INVERT], [32, 16], {"It", "A16:11", "C420paldv", "XCOLORRANGE=FULL"}),
    ([{"resize": {"width": 16, "height": 16}}], [16, 16], {"Ip", "A1:1", "C420jpeg"}),
], ids=["none", "affine", "resize"])
def test_the_results_keep_what_the_producer_says_of_its_pictures(place, stages, size, kept):
    """Where they have the format of its frames."""
    entry = pipeline(YUV, source={"protocol": "y4m"}, sink={"protocol": "y4m"}, stages=stages)
    said = ["W32", "H16", "F25:1", "It", "A16:11", "C420paldv", "XCOLORRANGE=FULL"]
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(y4m_stream(numbered(1, YUV_BYTES), WIDTH, HEIGHT, parameters=said))
            taking = Background(reader.rest)
            daemon.account(came=1, emitted=1)
            daemon.finish()
            words, _ = read_y4m(taking.join(), size[0] * size[1] * 3 // 2)
    assert set(words) == {f"W{size[0]}", f"H{size[1]}", "F25:1", *kept}, words


def test_each_reader_keeps_the_rate_of_its_first_result(place):
    entry = pipeline(GRAY, source={"protocol": "y4m"}, sink={"protocol": "y4m", "overload": "drop"})
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as early:
            first = Background(early.rest)
            daemon.wait_view("it is there", lambda view: view["readers"] == 1)
            with daemon.producer() as producer:
                producer.send(y4m_with_rate(numbered(2, GRAY_BYTES), "30:1"))
            daemon.wait_view("the first producer's are out", lambda view: view["frames"]["emitted"] == 2)
            with daemon.reader() as late:
                second = Background(late.rest)
                daemon.wait_view("both are there", lambda view: view["readers"] == 2)
                with daemon.producer() as producer:
                    producer.send(y4m_with_rate(numbered(2, GRAY_BYTES, first=2), "50:1"))
                daemon.account(came=4, emitted=4)
                daemon.finish()
                early_words, early_results = read_y4m(first.join(), GRAY_BYTES)
                late_words, late_results = read_y4m(second.join(), GRAY_BYTES)
    assert "F30:1" in early_words and len(early_results) == 4
    assert "F50:1" in late_words and len(late_results) == 2


def test_y4m_both_ways_on_one_connection(place):
    entry = pipeline(GRAY, source={"protocol": "y4m"}, sink={"reply": True, "protocol": "y4m"}, stages=[INVERT])
    frames = numbered(20, GRAY_BYTES)
    with Daemon(place, {"cam0": entry}) as daemon:
        for turn in range(2):  # the header comes anew for the next client
            with daemon.producer() as client:
                client.send(y4m_stream(frames, WIDTH, HEIGHT))
                client.finish()
                words, results = read_y4m(client.rest(), GRAY_BYTES)
            assert {"W32", "H16", "Cmono"} <= set(words)
            np.testing.assert_array_equal(results, 255 - frames)
            daemon.account(came=20 * (turn + 1), emitted=20 * (turn + 1))


# -- real clients ------------------------------------------------------------------------------------------------------


def ffmpeg(*output, format, frames=20):
    """The command for `frames` frames of ffmpeg's test picture, bit exact wherever it runs."""
    return ["ffmpeg", "-nostdin", "-v", "error", "-flags", "bitexact", "-f", "lavfi", "-i",
            f"testsrc2=size={WIDTH}x{HEIGHT}:rate=30", "-frames:v", str(frames), "-pix_fmt", format, *map(str, output)]


def gstreamer(format, *tail, frames=20):
    caps = f"video/x-raw,format={format},width={WIDTH},height={HEIGHT},framerate=30/1"
    return ["gst-launch-1.0", "-q", "videotestsrc", f"num-buffers={frames}", "pattern=ball", "!", caps, *tail,
            "!", "fdsink", "fd=1"]


def output_of(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=limit(30)).stdout


def compare(daemon, expected, send):
    """Runs `send` beside a reader that must get the expected frames inverted."""
    with daemon.reader() as reader:
        sending = Background(send)
        results = reader.frames(len(expected), expected.shape[1])
        sending.join()
    np.testing.assert_array_equal(results, 255 - expected)
    daemon.account(came=len(expected), emitted=len(expected))


@needs["ffmpeg"]
@pytest.mark.parametrize("protocol, muxer", [("raw", "rawvideo"), ("y4m", "yuv4mpegpipe")])
@pytest.mark.parametrize("format, size", [("gray", GRAY_BYTES), ("yuv420p", YUV_BYTES)])
def test_ffmpeg_writes_to_the_socket(place, protocol, muxer, format, size):
    expected = np.frombuffer(output_of(ffmpeg("-f", "rawvideo", "-", format=format)), np.uint8).reshape(-1, size)
    entry = pipeline({**GRAY, "pixels": format}, source={"protocol": protocol}, stages=[INVERT])
    with Daemon(place, {"cam0": entry}) as daemon:
        command = ffmpeg("-f", muxer, f"unix:{daemon.path('cam0', 'source')}", format=format)
        compare(daemon, expected, lambda: output_of(command))


@needs["ffmpeg"]
def test_ffmpeg_reads_y4m_from_the_socket(place):
    frames = np.random.default_rng(5).integers(0, 256, (10, YUV_BYTES), np.uint8)
    with Daemon(place, {"cam0": pipeline(YUV, sink={"protocol": "y4m"}, stages=[INVERT])}) as daemon:
        command = ["ffmpeg", "-nostdin", "-v", "error", "-f", "yuv4mpegpipe", "-i", f"unix:{daemon.path('cam0', 'sink')}",
                   "-f", "rawvideo", "-"]
        reading = Background(output_of, command)
        with daemon.producer() as producer:
            producer.send(frames.tobytes())
            daemon.account(came=10, emitted=10)
    result = reading.join()  # the daemon's end is its end: with -frames:v ffmpeg 6.1 waits for more than it writes
    np.testing.assert_array_equal(np.frombuffer(result, np.uint8).reshape(10, -1), 255 - frames)


@needs["gst-launch-1.0"]
@needs["socat"]
@pytest.mark.parametrize("protocol, tail", [("raw", []), ("y4m", ["!", "y4menc"])])
def test_gstreamer_through_socat(place, protocol, tail):
    expected = np.frombuffer(output_of(gstreamer("I420")), np.uint8).reshape(-1, YUV_BYTES)
    assert len(expected) == 20
    entry = pipeline(YUV, source={"protocol": protocol}, stages=[INVERT])
    with Daemon(place, {"cam0": entry}) as daemon:
        def send():
            with subprocess.Popen(gstreamer("I420", *tail), stdout=subprocess.PIPE) as camera:
                subprocess.run(["socat", "-u", "-", f"UNIX-CONNECT:{daemon.path('cam0', 'source')}"], stdin=camera.stdout,
                               check=True, timeout=limit(30))
        compare(daemon, expected, send)


@needs["socat"]
def test_socat_on_both_sides(place):
    frames = numbered(50, GRAY_BYTES)
    with Daemon(place, {"cam0": pipeline(GRAY)}) as daemon:
        command = ["socat", "-u", f"UNIX-CONNECT:{daemon.path('cam0', 'sink')}", "-"]
        reader = subprocess.Popen(command, stdout=subprocess.PIPE)
        subprocess.run(["socat", "-u", "-", f"UNIX-CONNECT:{daemon.path('cam0', 'source')}"], input=frames.tobytes(),
                       check=True, timeout=limit(30))
        assert reader.stdout.read(frames.nbytes) == frames.tobytes()
        daemon.account(came=50, emitted=50)
        daemon.finish()
        assert reader.communicate(timeout=limit(10)) == (b"", None) and reader.returncode == 0
