"""The clients of the end-to-end tests and the service of the systemd tests serve here too."""

import pathlib
import sys

for folder in ("e2e", "systemd"):
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / folder))
