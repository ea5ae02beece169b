"""What a detector gives becomes boxes: every layout, with answers built into the tensors, beside a decoding of its own."""

import json
import os
import pathlib

import numpy as np
import pytest

from harness import Background, Daemon, complete, pipeline, run_framed

f32 = np.float32
MODELS = pathlib.Path(__file__).parents[1] / "data/models"


def through(place, tensor, stages, rows=None):
    """The result for one frame."""
    frame = tensor.astype(f32)
    entry = pipeline({"dtype": "float32", "shape": list(frame.shape)}, stages=stages)
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            sending = Background(producer.send, frame.tobytes())
            result = reader.frames(1, rows or (100, 6), f32)[0]
            sending.join()
        daemon.account(came=1, emitted=1)
    return result


# -- a decoding of its own ------------------------------------------------------------------------------------------------


def overlap(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def suppress(corners, scores, classes, score=0.25, iou=0.45, most=100):
    """[most, 6] from corners, scores and classes of all candidates."""
    kept = []
    for i in sorted(np.flatnonzero(scores >= f32(score)), key=lambda i: (-scores[i], i)):
        if len(kept) < most and not any(classes[i] == classes[k] and overlap(corners[i], corners[k]) > iou for k in kept):
            kept.append(i)
    rows = np.zeros((most, 6))
    for row, i in zip(rows, kept):
        left, top, right, bottom = np.maximum(corners[i], 0)
        row[:] = left, top, right - left, bottom - top, scores[i], classes[i]
    return rows


def corners_of(boxes):
    """From centre, width and height."""
    return np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1)


def scene(candidates, classes, seed):
    """Boxes in eighths of a pixel, many on top of each other, with scores of which no two in one tensor are equal."""
    random = np.random.default_rng(seed)
    objects = random.integers(0, 8 * 600, (12, 4)) / 8
    boxes = objects[random.integers(0, 12, candidates)] + random.integers(-40, 40, (candidates, 4)) / 8
    boxes[:, 2:] = np.abs(boxes[:, 2:]) / 4 + 8
    scores = random.permutation(candidates * classes).reshape(candidates, classes) / (candidates * classes)
    return boxes, (scores**3).astype(f32)


def detected(place, tensor, layout, **settings):
    return through(place, tensor, [{"detect": {"layout": layout, **settings}}], (settings.get("most", 100), 6))


# -- layouts --------------------------------------------------------------------------------------------------------------


def test_yolo8(place):
    boxes, scores = scene(8400, 80, 1)
    result = detected(place, np.concatenate([boxes, scores], axis=1).T[None], "yolo8")
    expected = suppress(corners_of(boxes), scores.max(axis=1), scores.argmax(axis=1))
    assert 50 < np.count_nonzero(expected[:, 4]) <= 100
    np.testing.assert_array_equal(result, expected.astype(f32))


def test_yolo5_multiplies_by_objectness(place):
    boxes, scores = scene(6300, 20, 2)
    objectness = np.random.default_rng(3).random(6300).astype(f32)[:, None]
    result = detected(place, np.concatenate([boxes, objectness, scores], axis=1)[None], "yolo5")
    expected = suppress(corners_of(boxes), objectness[:, 0] * scores.max(axis=1), scores.argmax(axis=1))
    assert np.count_nonzero(expected[:, 4]) > 50
    np.testing.assert_array_equal(result, expected.astype(f32))


@pytest.mark.parametrize("strides", [(8, 16, 32), (8, 16, 32, 64)], ids=str)
def test_yolox_places_boxes_in_its_grids(place, strides):
    """The boxes that are wanted, written as places within the cells."""
    cells = [(x, y, stride) for stride in strides for y in range(320 // stride) for x in range(320 // stride)]
    boxes, scores = scene(len(cells), 10, 4)
    corner, stride = np.array([cell[:2] for cell in cells]), np.array([cell[2:] for cell in cells])
    raw = np.concatenate([boxes[:, :2] / stride - corner, np.log(boxes[:, 2:] / stride)], axis=1)
    objectness = np.full((len(cells), 1), 0.5)
    result = detected(place, np.concatenate([raw, objectness, scores], axis=1)[None], "yolox", score=0.1)
    expected = suppress(corners_of(boxes), scores.max(axis=1) / 2, scores.argmax(axis=1), score=0.1)
    assert np.count_nonzero(expected[:, 4]) > 50
    np.testing.assert_array_equal(result[:, 4:], expected[:, 4:].astype(f32))
    np.testing.assert_allclose(result[:, :4], expected[:, :4], rtol=1e-5, atol=1e-3)


def test_end2end_keeps_all(place):
    boxes, scores = scene(300, 1, 5)
    classes = np.random.default_rng(6).integers(0, 80, (300, 1))
    result = detected(place, np.concatenate([corners_of(boxes), scores, classes], axis=1)[None], "end2end", most=300)
    expected = suppress(corners_of(boxes), scores[:, 0], classes[:, 0], iou=1, most=300)
    np.testing.assert_array_equal(result, expected.astype(f32))


@pytest.mark.parametrize("logits, score", [("sigmoid", 0.99), ("softmax", 0.4)])
def test_detr_takes_logits(place, logits, score):
    boxes, _ = scene(300, 1, 7)
    raw = np.random.default_rng(8).normal(-3, 3, (300, 92))
    if logits == "sigmoid":
        scores = 1 / (1 + np.exp(-raw))
    else:
        scores = (np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True))[:, :-1]
    result = detected(place, np.concatenate([boxes / 640, raw], axis=1)[None], "detr", logits=logits, most=300,
                      score=score)
    best = scores.max(axis=1)
    expected = suppress(corners_of(boxes / 640), best, scores.argmax(axis=1), score=score, iou=1, most=300)
    assert 10 < np.count_nonzero(expected[:, 4]) < 300
    np.testing.assert_array_equal(result[:, 5], expected[:, 5])
    np.testing.assert_allclose(result[:, :5], expected[:, :5], rtol=1e-5, atol=1e-6)


# -- what is kept ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("iou, score, most", [(0, 0.25, 100), (0.45, 0.6, 7), (1, 0.001, 1000), (0.9, 0.001, 1000)])
def test_bounds(place, iou, score, most):
    boxes, scores = scene(2000, 4, 9)
    settings = {"iou": iou, "score": score, "most": most}
    result = detected(place, np.concatenate([boxes, scores], axis=1).T[None], "yolo8", **settings)
    np.testing.assert_array_equal(
        result, suppress(corners_of(boxes), scores.max(axis=1), scores.argmax(axis=1), **settings).astype(f32))


def test_of_many_candidates_the_best_are_looked_at(place):
    """All of one object: were more than 4096 looked at, the poor one aside would be found."""
    tensor = np.tile(np.array([[100, 100, 50, 50, 0.9]]), (5000, 1))
    tensor[4999] = 400, 400, 50, 50, 0.5
    result = detected(place, tensor.T[None], "yolo8")
    np.testing.assert_array_equal(result[:2], np.array([[75, 75, 50, 50, 0.9, 0], [0] * 6], f32))


def test_what_is_not_a_number_is_no_box(place):
    tensor = np.full((1, 6, 40), np.nan)
    tensor[0, :, 7] = 50, 60, 20, 10, np.nan, 0.75
    result = detected(place, tensor, "yolo8")
    np.testing.assert_array_equal(result[:2], [[40, 55, 20, 10, 0.75, 1], [0] * 6])


# -- in the picture -------------------------------------------------------------------------------------------------------

SCALE = 6 / 255


def table(values, width, height):
    """A gray picture whose `values` remain when resize makes it 6 pixels wide."""
    return np.kron(values, np.ones((height // len(values), width // 6))).astype(np.uint8)


STAGES = [{"resize": {"width": 6, "height": 10, "filter": "nearest"}},
          {"normalize": {"scale": SCALE}},
          {"detect": {"layout": "end2end", "most": 10}}]


def sent(place, picture, stages, shape, dtype, pixels="gray"):
    height, width = picture.shape[:2]
    with Daemon(place, {"cam0": pipeline({"pixels": pixels, "width": width, "height": height}, stages=stages)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(picture.tobytes())
            return reader.frames(1, shape, dtype)[0]


def test_boxes_are_those_of_the_picture_that_came_in(place):
    """Six pixels stand for 600, ten for 400; of the second box a part lies outside."""
    values = np.zeros((10, 6))
    values[0] = 51, 102, 153, 204, 40, 85
    values[1] = 204, 0, 255, 255, 30, 0
    result = sent(place, table(values, 600, 400), STAGES, (10, 6), f32)
    expected = [[120, 96, 240, 96, 40 * SCALE, 2], [480, 0, 120, 240, 30 * SCALE, 0], [0] * 6]
    np.testing.assert_allclose(result[:3], expected, rtol=1e-5)


def test_boxes_come_back_through_a_letterbox(place):
    """300 x 200 pixels become 6 x 4 of 6 x 10, with bars of 2 above and 4 below, as windows begin at even pixels."""
    picture = np.full((200, 300), 85, np.uint8)
    stages = [{"resize": {"width": 6, "height": 10, "fit": "letterbox"}}, *STAGES[1:]]
    result = sent(place, picture, stages, (10, 6), f32)
    # Each row of the window says: from 2 to 2, a score of 2, class 2.
    np.testing.assert_allclose(result[:5], [[100, 0, 0, 0, 2, 2]] * 4 + [[0] * 6], rtol=1e-5)


def boxes_in_pixels(layout, values):
    """Corners in the network's 32x32, scores and classes that these pixels say, as the model of that layout computes them."""
    if layout == "end2end":
        return values[:, :4] / 8, values[:, 4] / 256, values[:, 5]
    boxes, scores = values[:, :4] / 8, values[:, 4:] / 256
    if layout == "yolo5":
        return corners_of(boxes), scores[:, 0] * scores[:, 1:].max(axis=1), scores[:, 1:].argmax(axis=1)
    if layout == "detr":
        scores = 1 / (1 + np.exp(8 - values[:, 4:] / 16))
    if layout == "yolox":
        cells = np.array([(x, y, stride) for stride in (8, 16, 32) for y in range(32 // stride) for x in range(32 // stride)])
        raw = values[:, :4] / 64 - 2
        boxes = np.concatenate([(raw[:, :2] + cells[:, :2]) * cells[:, 2:], np.exp(raw[:, 2:]) * cells[:, 2:]], axis=1)
        return corners_of(boxes), scores[:, 0] * scores[:, 1:].max(axis=1), scores[:, 1:].argmax(axis=1)
    return corners_of(boxes), scores.max(axis=1), scores.argmax(axis=1)


@pytest.mark.skipif("FRAMED_ONNXRUNTIME" not in os.environ, reason="there is no ONNX Runtime")
@pytest.mark.parametrize("layout, candidates, numbers", [("yolo8", 128, 8), ("yolo5", 128, 8), ("yolox", 21, 8), ("end2end", 128, 6),
                                                         ("detr", 128, 8)])
def test_a_model_finds_the_boxes_that_are_built_into_the_picture(place, layout, candidates, numbers):
    """The picture is twice as wide and three times as high as the 32x32 pixels that the model takes."""
    random = np.random.default_rng(10)
    values = random.integers(0, 256, (candidates, numbers))
    if layout == "end2end":
        values[:, 2:4] = np.minimum(values[:, :2] + random.integers(8, 90, (candidates, 2)), 255)
        values[:, 5] = random.integers(0, 4, candidates)
    pixels = np.zeros(32 * 32, np.uint8)
    pixels[:values.size] = (values.T if layout == "yolo8" else values).ravel()
    picture = np.kron(pixels.reshape(32, 32), np.ones((3, 2), np.uint8))
    stages = [{"resize": {"width": 32, "height": 32, "filter": "nearest"}}, {"normalize": {"scale": 1.0}},
              {"model": {"file": str(MODELS / f"layout-{layout}.onnx")}}, {"detect": {"layout": layout, "most": 128}}]
    result = sent(place, picture, stages, (128, 6), f32)
    corners, scores, classes = boxes_in_pixels(layout, values)
    expected = suppress(corners, scores, classes, most=128, iou=1 if layout in ("end2end", "detr") else 0.45)
    kept = np.flatnonzero(expected[:, 4])
    assert len(kept) > 5
    left, top = np.clip(expected[:, 0] * 2, 0, 64), np.clip(expected[:, 1] * 3, 0, 96)
    right, bottom = ((expected[:, 0] + expected[:, 2]) * 2).clip(0, 64), ((expected[:, 1] + expected[:, 3]) * 3).clip(0, 96)
    expected[:, :4] = np.stack([left, top, right - left, bottom - top], axis=1)
    if layout in ("yolox", "detr"):  # exponents
        np.testing.assert_array_equal(result[:, 5], expected[:, 5])
        np.testing.assert_allclose(result[:, :5], expected[:, :5], rtol=1e-5, atol=1e-4)
    else:
        np.testing.assert_array_equal(result, expected.astype(f32))


def test_boxes_are_drawn_into_the_picture(place):
    values = np.zeros((10, 6))
    values[0] = 51, 102, 153, 204, 40, 85
    picture = table(values, 600, 400)
    labels = place / "labels.txt"
    labels.write_text("cat\ndog\nzebra\n")
    stages = [*STAGES, {"draw": {"on": "input", "labels": str(labels), "thickness": 3}}]
    result = sent(place, picture, stages, (400, 600), np.uint8)
    # The box that the test above finds; its label, 11 letters of 6 pixels and one, stands on it.
    outline = np.zeros((400, 600), bool)
    outline[96:192, 120:360] = True
    outline[99:189, 123:357] = False
    level = result[100, 121]
    assert level not in (0, 255)
    label = result[87:96, 120:120 + 10 * 6 + 1]
    assert set(np.unique(label)) == {0, level} and result[86, 120] == picture[86, 120]
    np.testing.assert_array_equal(result[outline], level)
    outline[87:96, 120:181] = True
    np.testing.assert_array_equal(result[~outline], picture[~outline])


# -- mistakes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape, stage, says", [
    ([1, 84, 8400], {"detect": {"layout": "end2end"}}, "in layout end2end float32 [1, candidates, 6]"),
    ([1, 8401, 85], {"detect": {"layout": "yolox"}}, "8401 candidates are not those of layout yolox"),
    ([1, 84, 8400], {"detect": {"layout": "yolo8", "logits": "softmax"}}, "`logits` has no effect on layout yolo8"),
    ([1, 84, 8400], {"detect": {"layout": "yolo8", "labels": "none.txt"}}, "none.txt: No such file"),
    ([1, 84, 8400], {"detect": {"layout": "yolo8", "labels": "two.txt"}}, "has 2 names, but the tensor has 80 classes"),
    ([1, 84, 8400], {"detect": {"layout": "yolo8", "labels": "."}}, "not a regular file"),
    ([1, 84, 8400], {"detect": {"layout": "yolo8", "labels": "latin.txt"}}, "line 2 of"),
    ([1, 84, 8400], {"draw": {"on": "input"}}, "put `detect` before it"),
    ([2, 1000], {"top": {}}, "one list of scores"),
], ids=["end2end", "yolox", "logits", "no file", "other labels", "folder", "latin", "draw", "top"])
def test_what_does_not_fit_is_said(place, shape, stage, says):
    (place / "two.txt").write_text("one\ntwo\n")
    (place / "latin.txt").write_bytes("caf\u00e9\n".encode() + "caf\u00e9\n".encode("latin-1"))
    name, settings = next(iter(stage.items()))
    settings = {key: str(place / value) if key == "labels" else value for key, value in settings.items()}
    entry = pipeline({"dtype": "float32", "shape": shape}, stages=[{name: settings}])
    file = place / "wrong.yaml"
    file.write_text(json.dumps(complete(place, {"cam0": entry})))
    done = run_framed("--check", "-c", file)
    assert done.returncode != 0 and says in done.stderr, done.stderr
