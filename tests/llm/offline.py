"""Keeps tests on this machine: a connection to anywhere but the loopback address is a failed test."""

import ipaddress
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tapebook.settings.config import MODEL_KEYS

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_SDK = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "OPENAI_BASE_URL", "OPENAI_ORG_ID")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No key, no proxy, no way out."""
    for name in (*MODEL_KEYS.values(), *_PROXIES, *map(str.lower, _PROXIES), *_SDK):
        monkeypatch.delenv(name, raising=False)
    connect = socket.socket.connect

    def connect_here(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            assert ipaddress.ip_address(address[0]).is_loopback, f"a test tried to reach {address}"
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_here)
    yield


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
