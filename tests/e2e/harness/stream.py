"""A stream without end whose every frame is looked at, for pipelines that something is done to meanwhile."""

import itertools
import threading

from harness.frames import whole
from harness.waiting import Background

SIZE = 512
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


class Stream:
    """A producer and a reader that check a lossless pipeline without end, until they are told to stop."""

    LAST = b"\xff" * SIZE

    def __init__(self, daemon, name="cam0"):
        self.producer, self.reader = daemon.producer(name), daemon.reader(name)
        self.stop = threading.Event()
        self.sending, self.taking = Background(self._send), Background(self._take)

    def _send(self):
        for number in itertools.count():
            if self.stop.is_set():
                self.producer.send(self.LAST)
                return number + 1
            self.producer.send(whole(number, SIZE).tobytes())

    def _take(self):
        for number in itertools.count():
            frame = self.reader.read(SIZE)
            if frame == self.LAST:
                return number + 1
            assert frame == whole(number, SIZE).tobytes(), f"frame {number} is not what was sent"

    def end(self):
        """Ends it and returns how many frames went through; any loss or disturbance raises."""
        self.stop.set()
        sent, taken = self.sending.join(), self.taking.join()
        assert sent == taken, f"{sent} were sent and {taken} came"
        self.producer.close()
        self.reader.close()
        return sent
