"""Lots of the shared transport: the memory of one connection, and the rest of a lost one.

The memory comes from another process, so its sizes are checked against the welcome before it is mapped.
"""

import fcntl
import mmap
import os
from typing import Any, Deque, Sequence

from framed import wire
from framed.wire import Code, Error, Welcome


def map_memory(descriptor: int, size: int, writable: bool) -> mmap.mmap:
    """Checks that the memory cannot shrink: a mapped file that shrinks kills this process at the next access."""
    sealed = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
    if not sealed or os.fstat(descriptor).st_size < size:
        raise Error(Code.DAEMON, "memory came that is smaller than the welcome says, or could become so")
    access = mmap.PROT_READ | mmap.PROT_WRITE if writable else mmap.PROT_READ
    return mmap.mmap(descriptor, size, mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0), access)


def slices(memory: mmap.mmap, count: int, stride: int, size: int) -> "list[memoryview]":
    whole = memoryview(memory)
    return [whole[n * stride:n * stride + size] for n in range(count)]


def check_strides(welcome: Welcome) -> None:
    fine = welcome.control_bytes == wire.CONTROL_BYTES
    for stride, size in (welcome.input_stride, welcome.input_bytes), (welcome.output_stride, welcome.output_bytes):
        fine = fine and stride >= size > 0 and stride % 64 == 0
    if not fine:
        raise Error(Code.DAEMON, f"the memory of pipeline {welcome.pipeline} makes no sense: {welcome}")


class Past:
    """Unread completions of a lost connection, as (slot, fate, fields), and their outputs."""

    def __init__(self, completions: "Deque[tuple[int, int, Sequence[int]]]", outputs: "list[memoryview]",
                 arrays: "list[Any]") -> None:
        self.completions, self.outputs, self.arrays = completions, outputs, arrays
