"""The Python client as the tests use it: from the sources, with pipelines whose results can be told from their frames.

Whoever imports this is left out where there are no sources: the portable folder has none.
"""

import pathlib
import sys

import pytest

from harness.daemon import pipeline
from harness.waiting import limit

PACKAGE = pathlib.Path(__file__).resolve().parents[3] / "tools/client/python"
if not PACKAGE.exists():
    pytest.skip("the portable folder has no Python client", allow_module_level=True)
sys.path.insert(0, str(PACKAGE / "src"))
import framed  # noqa: E402
from framed.wire import Role, Transport  # noqa: E402

GRAY = {"pixels": "gray", "width": 32, "height": 16}
INVERT = {"affine": {"scale": -1.0, "offset": 255.0}}
TRANSPORTS = pytest.mark.parametrize("transport", list(Transport), ids=lambda transport: transport.name.lower())


def replying(format=GRAY, stages=(INVERT,), **keys):
    return pipeline(format, stages=stages, source={"protocol": "native"}, sink={"reply": True, "protocol": "native"}, **keys)


def connect(daemon, role=Role.BOTH, **options):
    end = "sink" if role == Role.CONSUMER else "source"
    return framed.connect(daemon.path("cam0", end), role, timeout=limit(10), **options)
