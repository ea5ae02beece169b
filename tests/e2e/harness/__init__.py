"""What the end-to-end tests share: the daemon under test, its clients, frames and the arithmetic to expect.

Nothing here sleeps for a fixed time: whatever takes time is polled for until a deadline, and FRAMED_SLOW scales
the deadlines (sanitizers, busy machines). Needs Python 3.9, pytest and numpy, so that the tests also run on a bare
machine with a GPU.

FRAMED_BINARY   the daemon (default: build/check/framed)
FRAMECTL, FRAMED_WORKER: framectl and framed-worker (default: beside the daemon)
FRAMED_BACKEND  cpu (default) or cuda
FRAMED_SLOW     factor for every deadline (default 1)
"""

from harness.clients import Client, Producer, Reader
from harness.daemon import BACKEND, BINARY, FRAMECTL, Daemon, complete, environment, pipeline, run_framed
from harness.frames import fault_stage, numbered, read_y4m, require_whole, slow_stage, whole, y4m_stream
from harness.processes import NOBODY, Forked, as_nobody
from harness.waiting import Background, limit, pace, wait_until

__all__ = [
    "BACKEND", "BINARY", "FRAMECTL", "NOBODY", "Background", "Client", "Daemon", "Forked", "Producer", "Reader", "as_nobody",
    "complete", "environment", "fault_stage", "limit", "numbered", "pace", "pipeline", "read_y4m", "require_whole", "run_framed",
    "slow_stage", "wait_until", "whole", "y4m_stream",
]
