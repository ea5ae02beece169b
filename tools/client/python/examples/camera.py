"""Sends a camera's pictures through a pipeline whose sink is `reply`, and shows or prints the results.

    camera.py /run/framed/cam0.sock            the first camera, by OpenCV, into a pipeline that takes bgr24
    camera.py --test /run/framed/cam0.sock     a moving test picture by ffmpeg; the default without a camera

OpenCV and ffmpeg write pictures directly into memory that the daemon's device reads, without a buffer in between.
"""

import argparse
import subprocess
import sys
import time
from typing import Any, Callable, Optional

import framed

try:
    import cv2
except ImportError:
    cv2 = None

Source = Callable[[framed.Frame], bool]  # writes the next picture into the frame; False at the end


def camera(number: int, width: int, height: int) -> Optional[Source]:
    device = cv2.VideoCapture(number) if cv2 else None
    if device is None or not device.isOpened():
        return None
    device.set(cv2.CAP_PROP_FRAME_WIDTH, width)
    device.set(cv2.CAP_PROP_FRAME_HEIGHT, height)

    def read(frame: framed.Frame) -> bool:
        there, picture = device.read(frame.array)
        if there and picture is not frame.array:  # its size differs from the pipeline's
            cv2.resize(picture, (width, height), dst=frame.array)
        return bool(there)
    return read


def moving_picture(pixels: str, size: str) -> Source:
    ffmpeg = subprocess.Popen(
        ["ffmpeg", "-v", "error", "-re", "-f", "lavfi", "-i", f"testsrc2=size={size}:rate=30", "-pix_fmt", pixels, "-f", "rawvideo", "-"],
        stdout=subprocess.PIPE, bufsize=0)

    def read(frame: framed.Frame) -> bool:
        at = 0
        while at < len(frame.memory):
            count = ffmpeg.stdout.readinto(frame.memory[at:])  # type: ignore[union-attr]
            if not count:
                return False
            at += count
        return True
    return read


def source(client: framed.Client, arguments: Any) -> Source:
    """The pipeline's format in ffmpeg's words. Both use the same names for pixels."""
    pixels, _, size = client.welcome.input_format.partition(" ")
    width, height = map(int, size.split("x"))
    if arguments.test:
        return moving_picture(pixels, size)
    found = camera(arguments.camera, width, height) if pixels == "bgr24" else None
    if not found:
        why = (f"OpenCV's pictures are bgr24, and the pipeline takes {pixels}" if pixels != "bgr24" else
               f"camera {arguments.camera} does not open" if cv2 else "there is no OpenCV")
        print(f"camera.py: {why}: sending a moving test picture", file=sys.stderr)
    return found or moving_picture(pixels, size)


def show(result: framed.Result, window: bool) -> None:
    if result.memory is None:
        print(f"frame {result.sequence}: dropped ({result.fate!r})")
    elif window:
        cv2.imshow("framed", result.array)
        cv2.waitKey(1)
    else:
        print(f"frame {result.sequence}: {result.steps.total / 1e3:.1f} us, {result.dropped} dropped before it", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("socket")
    parser.add_argument("--camera", type=int, default=0, help="number of the camera")
    parser.add_argument("--test", action="store_true", help="ffmpeg's test picture, where there is a camera, too")
    parser.add_argument("--count", type=int, default=0, help="how many pictures; 0: until interrupted")
    parser.add_argument("--window", action="store_true", help="show the results in a window, where OpenCV has one")
    arguments = parser.parse_args()
    with framed.connect(arguments.socket) as client:
        read, sequence = source(client, arguments), 0
        while arguments.count == 0 or sequence < arguments.count:
            frame = client.acquire()
            if not read(frame):
                break
            client.submit(frame, sequence, timestamp=time.monotonic_ns())
            sequence += 1
            result = client.receive(timeout=10)
            if result is not None:
                show(result, arguments.window)
                result.release()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
    except (framed.Error, OSError) as error:
        raise SystemExit(f"camera.py: {error}") from None
