"""Makes a view of memory with type and shape from a format's text, such as "rgb24 640x480" or "float32[3,480,640]"."""

import math
import re
from typing import Any, NamedTuple, Union

try:
    import numpy
except ImportError:
    numpy = None


class Layout(NamedTuple):
    letter: str  # type of the elements: "B" or "f"
    shape: "tuple[int, ...]"


def image_layout(pixels: str, width: int, height: int) -> Union[Layout, None]:
    """Shapes as in OpenCV: rows first, with narrower planes below the first one."""
    shapes = {
        "gray": (height, width),
        "grayf32le": (height, width),
        "rgb24": (height, width, 3),
        "bgr24": (height, width, 3),
        "nv12": (height + (height + 1) // 2, width),
        "yuv420p": (height + (height + 1) // 2, width),
        "yuyv422": (height, (width + 1) // 2 * 2, 2),
    }
    shape = shapes.get(pixels)
    return Layout("f" if pixels == "grayf32le" else "B", shape) if shape else None


def described(words: str) -> Union[Layout, None]:
    image = re.fullmatch(r"(\w+) (\d+)x(\d+)", words)
    if image:
        return image_layout(image[1], int(image[2]), int(image[3]))
    tensor = re.fullmatch(r"(uint8|float32)\[(\d+(?:,\d+)*)\]", words)
    if tensor:
        return Layout("f" if tensor[1] == "float32" else "B", tuple(map(int, tensor[2].split(","))))
    return None


def layout_of(words: str, size: int) -> Layout:
    """The layout of a format. Unknown formats, and planes that form no rectangle (odd widths), become plain bytes."""
    layout = described(words)
    if layout and math.prod(layout.shape) * (4 if layout.letter == "f" else 1) == size:
        return layout
    return Layout("B", (size,))


def view(memory: memoryview, layout: Layout) -> Any:
    """The memory as a numpy array if numpy is installed, else as a memoryview. It is writable if the memory is."""
    if numpy is None:
        return memory.cast(layout.letter, list(layout.shape))  # type: ignore[call-overload]
    return numpy.frombuffer(memory, dtype=numpy.float32 if layout.letter == "f" else numpy.uint8).reshape(layout.shape)


def is_array(data: Any) -> bool:
    return numpy is not None and isinstance(data, numpy.ndarray)
