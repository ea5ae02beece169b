"""top, mask and image on what networks give, and normalize for what they take, beside numpy."""

import numpy as np
import pytest

from harness import Background, Daemon, pipeline

f32 = np.float32


def through(place, frame, stage, shape, dtype, pixels=None):
    format = {"dtype": "float32", "shape": list(frame.shape)}
    if pixels:
        format = {"pixels": pixels, "width": frame.shape[1], "height": frame.shape[0]}
    with Daemon(place, {"cam0": pipeline(format, stages=[stage])}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            sending = Background(producer.send, frame.tobytes())
            result = reader.frames(1, shape, dtype)[0]
            sending.join()
    return result


@pytest.mark.parametrize("shape", [(1000,), (1, 1000), (1, 1000, 1, 1)], ids=str)
def test_top_gives_the_best_classes(place, shape):
    scores = np.random.default_rng(1).permutation(1000).astype(f32).reshape(shape) - 500
    result = through(place, scores, {"top": {"k": 7}}, (7, 2), f32)
    best = np.argsort(-scores.reshape(-1))[:7]
    np.testing.assert_array_equal(result, np.stack([best, scores.reshape(-1)[best]], axis=1).astype(f32))


def test_top_with_softmax(place):
    logits = np.random.default_rng(2).normal(0, 5, (1, 5000)).astype(f32)
    labels = place / "labels.txt"
    labels.write_text("".join(f"class {i}\n" for i in range(5000)))
    result = through(place, logits, {"top": {"softmax": True, "labels": str(labels)}}, (5, 2), f32)
    shares = np.exp(logits[0].astype(float)) / np.exp(logits[0].astype(float)).sum()
    best = np.argsort(-shares)[:5]
    np.testing.assert_array_equal(result[:, 0], best)
    np.testing.assert_allclose(result[:, 1], shares[best], rtol=1e-5)


def test_top_of_few_classes_and_of_no_numbers(place):
    scores = np.array([[np.nan, 3, np.inf, 3]], f32)
    result = through(place, scores, {"top": {}}, (4, 2), f32)
    most = np.finfo(f32).max
    np.testing.assert_array_equal(result, [[2, most], [1, 3], [3, 3], [0, -most]])


@pytest.mark.parametrize("shape, scale", [((21, 37, 53), 1), ((1, 2, 40, 30), 255)], ids=str)
def test_mask_is_the_class_of_each_pixel(place, shape, scale):
    planes = np.random.default_rng(3).integers(0, 9, shape).astype(f32)
    result = through(place, planes, {"mask": {"scale": scale}}, shape[-2:], np.uint8)
    np.testing.assert_array_equal(result, planes.reshape(shape[-3:]).argmax(axis=0) * scale)


def test_image_turns_planes_into_pixels(place):
    planes = np.random.default_rng(4).random((3, 20, 30)).astype(f32) * 2 - 0.5
    result = through(place, planes, {"image": {"channels": "bgr"}}, (20, 30, 3), np.uint8)
    levels = np.floor(np.clip(planes * f32(255), 0, 255) + f32(0.5))
    np.testing.assert_array_equal(result, levels[::-1].transpose(1, 2, 0))


def test_image_of_one_plane_is_gray(place):
    plane = np.random.default_rng(5).integers(-300, 300, (1, 1, 20, 30)).astype(f32)
    result = through(place, plane, {"image": {"scale": 0.5, "offset": 100}}, (20, 30), np.uint8)
    np.testing.assert_array_equal(result, np.floor(np.clip(plane[0, 0] * f32(0.5) + 100, 0, 255) + 0.5))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize("pixels, channels, turned", [("rgb24", "keep", False), ("rgb24", "bgr", True), ("bgr24", "rgb", True)])
def test_normalize_gives_what_a_model_takes(place, dtype, layout, pixels, channels, turned):
    frame = np.random.default_rng(6).integers(0, 256, (17, 31, 3), np.uint8)
    mean, std = np.array([0.5, 0.4, 0.3], f32), np.array([0.25, 0.2, 1e-5], f32)
    stage = {"normalize": {"mean": [0.5, 0.4, 0.3], "std": [0.25, 0.2, 1e-5], "dtype": dtype, "channels": channels,
                           "layout": layout}}
    with np.errstate(over="ignore"):  # the third channel becomes infinite as float16
        expected = ((frame[:, :, ::-1] if turned else frame) * f32(1 / 255) - mean) / std
        expected = (expected if layout == "hwc" else expected.transpose(2, 0, 1)).astype(dtype)
    result = through(place, frame, stage, expected.shape, np.dtype(dtype), pixels)
    assert dtype == "float32" or np.isinf(expected).any()
    np.testing.assert_array_equal(result, expected)
