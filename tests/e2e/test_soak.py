"""Hours in short: a stream by the clock among clients that come and go, and nothing is left of those.

FRAMED_SOAK_SECONDS says for how long each (12; `make soak`: 900), FRAMED_SOAK_RESULTS in which directory the figures go as
JSON.
"""

import json
import os
import pathlib

import pytest

from harness.soak import Soak

SECONDS = float(os.environ.get("FRAMED_SOAK_SECONDS", "12"))
RESULTS = os.environ.get("FRAMED_SOAK_RESULTS")
MIB = 1 << 20
# Memory that a thread or an allocator takes once comes in the first minutes, of which a short run has none.
LONG = SECONDS >= 120
GROWTH = MIB if LONG else 4 * MIB

pytestmark = [pytest.mark.slow, pytest.mark.takes(2 * SECONDS + 60), pytest.mark.measures]


@pytest.mark.parametrize("bound_by", ["sockets", "kernel"])
def test_nothing_is_left_of_those_who_come_and_go(place, say, bound_by):
    soak = Soak(place, SECONDS, bound_by, share=0.8 if LONG else 0.4).run()
    say(soak.table())
    if RESULTS:
        pathlib.Path(RESULTS, f"soak-{bound_by}.json").write_text(json.dumps(soak.document(), indent=1) + "\n")
    before, after = soak.before, soak.after
    assert soak.visits > SECONDS, "next to nobody came"
    assert all(row["lost"] == row["disordered"] == row["dropped"] == 0 for row in soak.windows), "the good stream lost frames"
    assert after["descriptors"] <= before["descriptors"]
    assert (after["pinned_bytes"], after["device_bytes"]) == (before["pinned_bytes"], before["device_bytes"])
    assert after["resident_bytes"] <= before["resident_bytes"] + GROWTH
    assert after.get("driver_bytes", 0) <= before.get("driver_bytes", 0)
