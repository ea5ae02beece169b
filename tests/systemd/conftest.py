"""The clients and the waiting of the end-to-end tests serve here too; every test starts from a stopped service."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

from service import Service  # noqa: E402


def pytest_configure(config):
    for marker in ("host", "takes(seconds)"):
        config.addinivalue_line("markers", f"{marker}: of the end-to-end tests that serve here")


@pytest.fixture
def service():
    service = Service()
    yield service
    service.reset()
