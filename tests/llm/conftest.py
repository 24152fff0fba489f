"""The tests of models run against one server on this machine, and reach nothing else."""

from collections.abc import Iterator

import pytest

from tests.llm.model_server import ModelServer, serving
from tests.llm.offline import offline

__all__ = ["offline"]


@pytest.fixture(scope="session")
def one_server() -> Iterator[ModelServer]:
    """The server of all tests in this process."""
    with serving() as server:
        yield server


@pytest.fixture
def server(one_server: ModelServer) -> ModelServer:
    """The server, with nothing to say yet."""
    one_server.says()
    return one_server
