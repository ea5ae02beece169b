"""The image stages against ffmpeg's swscale, OpenCV and numpy.

Each stage runs alone, through the run-stage tool and a device of its backend, on pictures made here. What is asserted
is what the headers in gpu/stages promise. The unit tests hold the same stages to their formulas; here it is whether
people who come from these tools get what they know.
"""

import functools
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

from harness import BACKEND, BINARY

pytestmark = pytest.mark.plain

if "FRAMED_REQUIRE_GPU" in os.environ:  # machines lent for their GPU take what they have
    cv2 = pytest.importorskip("cv2")
else:
    import cv2

FORMATS = ["gray", "rgb24", "bgr24", "nv12", "yuv420p", "yuyv422", "grayf32le"]
YUV = ["nv12", "yuv420p", "yuyv422"]
CHROMA_LINES = {"nv12": 2, "yuv420p": 2, "yuyv422": 1}  # rows of pixels that share their chroma

needs_ffmpeg = pytest.mark.skipif(not shutil.which("ffmpeg"), reason="ffmpeg is not installed")


def run_stage_program():
    folder = pathlib.Path(BINARY).parent
    places = [os.environ.get("FRAMED_RUN_STAGE"), folder / "tests/run-stage", folder / "../tests/run-stage"]
    found = next((place for place in places if place and pathlib.Path(place).exists()), None)
    assert found, "run-stage is not built; `make e2e` does that, or set FRAMED_RUN_STAGE"
    return str(found)


@functools.cache
def stage_runner():
    """One process for all tests: opening a GPU takes longer than any of them. It ends with its standard input."""
    return subprocess.Popen([run_stage_program(), "--backend", BACKEND, "--jobs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def run_stage(frame, pixels, width, height, *stages):
    """The bytes that stages, such as "blur: sigma=2", make of one frame."""
    runner = stage_runner()
    runner.stdin.write("\t".join([pixels, f"{width}x{height}", *stages]).encode() + b"\n" + frame)
    runner.stdin.flush()
    size = runner.stdout.readline()
    assert size, f"run-stage ended with {runner.wait()}; what it complains of is above"
    return runner.stdout.read(int(size))


@pytest.fixture(scope="module", autouse=True)
def end_of_stage_runner():
    yield
    if stage_runner.cache_info().currsize:
        stage_runner().communicate()
        assert stage_runner().returncode == 0


def swscale(frame, pixels, width, height, *scales):
    """The bytes that ffmpeg makes of one frame; each scale is (options of its filter, pixel format after it)."""
    chain = ",".join(f"scale={options},format={after}" for options, after in scales)
    # One thread: with several, ffmpeg 5.1 shifts chroma where a slice begins at an odd row.
    command = ["ffmpeg", "-v", "error", "-filter_threads", "1", "-f", "rawvideo", "-pix_fmt", pixels, "-s", f"{width}x{height}", "-i", "-",
               "-vf", chain, "-f", "rawvideo", "-"]
    return subprocess.run(command, input=frame, stdout=subprocess.PIPE, check=True).stdout


def samples(frame, pixels):
    return np.frombuffer(frame, np.float32 if pixels == "grayf32le" else np.uint8)


def image(frame, pixels, width, height):
    """Rows, columns and channels, where these are together."""
    channels = (3,) if pixels in ("rgb24", "bgr24") else ()
    return samples(frame, pixels).reshape(height, width, *channels)


def color_picture(width, height):
    """Soft shapes, edges and noise in colours that every format can hold."""
    y, x = np.mgrid[0:height, 0:width]
    shades = [np.sin(x / 9 + y / 23), np.cos(x / 31 - y / 7), (x // 16 + y // 12) % 2 - 0.5]
    noise = np.random.default_rng(7).normal(0, 8, (height, width, 3))
    return np.clip(128 + 50 * np.dstack(shades) + noise, 30, 225).astype(np.uint8)


def picture(pixels, width, height):
    """The same picture in any format, made without the stages under test."""
    rgb = color_picture(width, height)
    if pixels == "rgb24":
        return rgb.tobytes()
    if pixels == "bgr24":
        return rgb[..., ::-1].tobytes()
    gray = rgb @ np.array([0.299, 0.587, 0.114])
    if pixels == "gray":
        return gray.astype(np.uint8).tobytes()
    if pixels == "grayf32le":
        return (gray / 255).astype(np.float32).tobytes()
    return yuv_picture(pixels, rgb, gray)


def yuv_picture(pixels, rgb, gray):
    height, width = gray.shape
    luma = np.rint(16 + gray * 219 / 255).astype(np.uint8)
    lines = CHROMA_LINES[pixels]
    blocks = [0.5 * (rgb[..., channel] - gray) / (1 - weight) * 224 / 255 + 128 for channel, weight in ((2, 0.114), (0, 0.299))]
    chroma = [np.rint(b.reshape(height // lines, lines, width // 2, 2).mean(axis=(1, 3))).astype(np.uint8) for b in blocks]
    if pixels == "yuv420p":
        return luma.tobytes() + chroma[0].tobytes() + chroma[1].tobytes()
    if pixels == "nv12":
        return luma.tobytes() + np.dstack(chroma).tobytes()
    return np.dstack([luma[:, 0::2], chroma[0], luma[:, 1::2], chroma[1]]).tobytes()


def require_close(result, expected, most, mean):
    assert result.shape == expected.shape
    distance = np.abs(result.astype(float) - expected)
    assert distance.max() <= most and distance.mean() <= mean, f"max {distance.max():g}, mean {distance.mean():g}"


# -- convert ---------------------------------------------------------------------------------------------------------

EXACT = "accurate_rnd+full_chroma_int+full_chroma_inp"


def convert_as_swscale(frame, before, after, width, height, matrix, levels):
    """Chroma goes up with `neighbor` and down with `area`; what swscale makes of floats directly is not gray / 255."""
    up = before in YUV and (after not in YUV or CHROMA_LINES[after] <= CHROMA_LINES[before])
    options = f"flags={'neighbor' if up else 'area'}+{EXACT}"
    if before in YUV:
        options += f":in_color_matrix={matrix}:in_range={levels}"
    if after not in ("rgb24", "bgr24"):
        options += f":out_color_matrix={matrix}"
    if after in YUV:
        options += f":out_range={levels}"
    if before in ("rgb24", "bgr24") and after in ("gray", "grayf32le"):  # for which ffmpeg 7.1 takes no matrix
        luma = swscale(frame, before, width, height, (options + ":out_range=full", "yuv444p"))[:width * height]
        return luma if after == "gray" else swscale(luma, "gray", width, height, ("flags=area", after))
    steps = [("flags=area", "gray")] if before == "grayf32le" else []
    steps += [(options, "gray" if after == "grayf32le" else after)]
    return swscale(frame, before, width, height, *steps, *([("flags=area", "grayf32le")] if after == "grayf32le" else []))


@needs_ffmpeg
@pytest.mark.parametrize("matrix,levels", [("bt601", "limited"), ("bt709", "full")])
@pytest.mark.parametrize("before", FORMATS)
def test_convert_agrees_with_swscale(before, matrix, levels):
    width, height = 190, 122
    frame = picture(before, width, height)
    for after in FORMATS:
        result = run_stage(frame, before, width, height, f"convert: to={after},matrix={matrix},range={levels}")
        if after == before:
            assert result == frame
            continue
        expected = convert_as_swscale(frame, before, after, width, height, matrix, levels)
        if after == "grayf32le":  # which keeps what gray rounds away
            require_close(samples(result, after) * 255, samples(expected, after) * 255, 1, 0.3)
        else:
            require_close(samples(result, after), samples(expected, after), 1, 0.1)


@needs_ffmpeg
@pytest.mark.parametrize("width,height", [(1, 1), (1, 2), (5, 1), (63, 47), (321, 3)])
def test_convert_of_odd_sizes_agrees_with_swscale_in_gray(width, height):
    noise = np.random.default_rng(3).integers(0, 256, width * height + 2 * ((width + 1) // 2) * ((height + 1) // 2), np.uint8)
    for before in ("yuv420p", "nv12"):
        result = run_stage(noise.tobytes(), before, width, height, "convert: to=gray")
        expected = swscale(noise.tobytes(), before, width, height, (f"flags=area+{EXACT}", "gray"))
        require_close(samples(result, "gray"), samples(expected, "gray"), 1, 0.1)


def test_convert_agrees_with_opencv():
    frame = picture("rgb24", 190, 122)
    rgb = image(frame, "rgb24", 190, 122)
    gray = run_stage(frame, "rgb24", 190, 122, "convert: to=gray")
    require_close(image(gray, "gray", 190, 122), cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), 1, 0.1)
    for pixels, code in (("yuv420p", cv2.COLOR_YUV2RGB_I420), ("nv12", cv2.COLOR_YUV2RGB_NV12)):
        yuv = picture(pixels, 190, 122)
        result = image(run_stage(yuv, pixels, 190, 122, "convert: to=rgb24"), "rgb24", 190, 122)
        require_close(result, cv2.cvtColor(samples(yuv, pixels).reshape(183, 190), code), 1, 0.3)


# -- resize ----------------------------------------------------------------------------------------------------------

SIZES = [((190, 122), (380, 244)), ((190, 122), (95, 61)), ((190, 122), (64, 50)), ((190, 122), (190, 122)),
         ((7, 5), (33, 41)), ((33, 41), (7, 5)), ((1, 1), (9, 3)), ((9, 3), (1, 1))]
# Enlarging by no whole number. Where edges or centres of both grids fall together, OpenCV's rounded factors decide.
ENLARGED = {"nearest": (210, 300), "bilinear": (211, 301), "area": (211, 301)}


def resize(frame, pixels, before, after, more):
    return run_stage(frame, pixels, *before, f"resize: width={after[0]},height={after[1]},{more}")


def even(size):
    return size[0] + size[0] % 2, size[1] + size[1] % 2


@pytest.mark.parametrize("pixels", ["gray", "rgb24", "bgr24", "grayf32le"])
@pytest.mark.parametrize("name,code", [("nearest", cv2.INTER_NEAREST_EXACT), ("bilinear", cv2.INTER_LINEAR),
                                       ("area", cv2.INTER_AREA)])
def test_resize_agrees_with_opencv(pixels, name, code):
    for before, after in [*SIZES, ((190, 122), ENLARGED[name])]:
        if name == "area" and (after[0] > before[0]) != (after[1] > before[1]):
            continue  # where one side grows and the other shrinks, OpenCV takes no areas
        if name == "nearest" and after == (95, 61):
            continue  # each centre lies between two samples, and versions of OpenCV differ in which they take
        frame = picture(pixels, *before)
        source = image(frame, pixels, *before)
        if before == (1, 1):  # OpenCV 4.5 takes no picture of one pixel with several channels
            expected = np.broadcast_to(source, (*reversed(after), *source.shape[2:]))
        else:
            expected = cv2.resize(source, after, interpolation=code)
        result = image(resize(frame, pixels, before, after, f"filter={name}"), pixels, *after)
        if pixels == "grayf32le":
            require_close(result, expected, 1e-5, 1e-6)
        else:
            require_close(result, expected, 0 if name == "nearest" else 1, 0.15)


@pytest.mark.parametrize("pixels", ["yuv420p", "nv12"])
def test_resize_takes_each_plane_by_itself(pixels):
    (width, height), (new_width, new_height) = (190, 122), (133, 75)
    frame = picture(pixels, width, height)
    result = samples(resize(frame, pixels, (width, height), (new_width, new_height), "filter=bilinear"), pixels)
    luma = samples(frame, pixels)[: width * height].reshape(height, width)
    expected = cv2.resize(luma, (new_width, new_height), interpolation=cv2.INTER_LINEAR)
    require_close(result[: new_width * new_height].reshape(expected.shape), expected, 1, 0.15)
    chroma = samples(frame, pixels)[width * height:]
    chroma = chroma.reshape(61, 95, 2) if pixels == "nv12" else np.dstack(chroma.reshape(2, 61, 95))
    expected = cv2.resize(chroma, (67, 38), interpolation=cv2.INTER_LINEAR)
    halves = result[new_width * new_height:]
    halves = halves.reshape(38, 67, 2) if pixels == "nv12" else np.dstack(halves.reshape(2, 38, 67))
    require_close(halves, expected, 1, 0.15)


OURS = {"neighbor": "nearest"}


@needs_ffmpeg
@pytest.mark.parametrize("pixels", ["gray", "yuv420p", "nv12", "rgb24"])
@pytest.mark.parametrize("name,after", [("neighbor", (250, 180)), ("neighbor", (80, 60)), ("bilinear", (380, 244)),
                                        ("bilinear", (250, 180)), ("area", (95, 61)), ("area", (76, 50)), ("area", (62, 30))])
def test_resize_agrees_with_swscale_where_both_mean_the_same(pixels, name, after):
    frame = picture(pixels, 190, 122)
    flags = f"{after[0]}:{after[1]}:flags={name}+{EXACT}"
    expected = samples(swscale(frame, pixels, 190, 122, (flags, pixels)), pixels)
    result = samples(resize(frame, pixels, (190, 122), after, f"filter={OURS.get(name, name)}"), pixels)
    require_close(result, expected, *((0, 0) if name == "neighbor" else (1, 0.2)))


def test_letterbox_is_a_resize_within_bars():
    frame = picture("rgb24", 190, 122)
    result = image(resize(frame, "rgb24", (190, 122), (100, 100), "filter=area,fit=letterbox,fill=40"), "rgb24", 100, 100)
    inner = cv2.resize(image(frame, "rgb24", 190, 122), (100, 64), interpolation=cv2.INTER_AREA)
    expected = cv2.copyMakeBorder(inner, 18, 18, 0, 0, cv2.BORDER_CONSTANT, value=(40, 40, 40))
    require_close(result, expected, 1, 0.1)


# -- blur and sobel --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("pixels", ["gray", "rgb24", "bgr24", "grayf32le"])
@pytest.mark.parametrize("sigma,radius", [(0.4, 1), (1, 3), (2.5, 8), (20, 60)])
def test_blur_agrees_with_opencv(pixels, sigma, radius):
    for size in ((190, 122), (33, 7), (2, 9), (1, 1)):
        frame = picture(pixels, *size)
        side = 2 * radius + 1
        expected = cv2.GaussianBlur(image(frame, pixels, *size), (side, side), sigma, borderType=cv2.BORDER_REFLECT_101)
        result = image(run_stage(frame, pixels, *size, f"blur: sigma={sigma},radius={radius}"), pixels, *size)
        if pixels == "grayf32le":
            require_close(result, expected, 1e-5, 1e-6)
        else:
            require_close(result, expected, 1, 0.3)


@pytest.mark.parametrize("size", [(190, 122), (33, 7), (2, 9), (1, 5), (1, 1)])
def test_sobel_equals_opencv_and_numpy(size):
    for pixels in ("gray", "grayf32le"):
        frame = picture(pixels, *size)
        source = image(frame, pixels, *size)
        depth = cv2.CV_32F if pixels == "grayf32le" else cv2.CV_16S
        across, down = (cv2.Sobel(source, depth, *order).astype(np.float64) for order in ((1, 0), (0, 1)))
        for output, exact in (("magnitude", np.hypot(across, down)), ("x", abs(across)), ("y", abs(down))):
            result = image(run_stage(frame, pixels, *size, f"sobel: output={output},scale=0.5"), pixels, *size)
            if pixels == "grayf32le":
                require_close(result, exact * 0.5, 1e-5, 1e-6)
            else:
                assert np.array_equal(result, np.minimum(np.floor(exact * 0.5 + 0.5), 255))
