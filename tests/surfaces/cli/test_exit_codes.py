"""Exit codes: whatever fails says so in one line on stderr and in its code; docs/commands.md has the table."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.api.app import HomeEvent, HomeObserver, RoleProgress, SupervisorProgress
from tapebook.desk.home_events import EventKind
from tapebook.errors import Retry
from tests.llm.model_server import Said, serving

Run = Callable[..., tuple[int, str, str]]

UNREACHABLE = "http://127.0.0.1:1"
NO_AGENT = """
agents show nobody | agents edit nobody --watch BTC | agents enable nobody | agents disable nobody | context nobody BTC
tick nobody BTC | runs --agent nobody | orders nobody | trades nobody | compare nobody --shadow | lessons show nobody
lessons promote nobody | experience show nobody | experience export nobody d | experience rebuild nobody
horizons show nobody | horizons rollup nobody | recall search x --agent nobody | recall append journal nobody x
halt nobody | resume nobody | flatten nobody | backtest nobody | import fills {file} --agent nobody
"""
NO_RUN = "runs show nope | replay nope | compare nope nope"
NO_BACKTEST = "backtests show zz | backtests remove zz | backtests compare zz zz | backtests export zz --html f.html"
NO_PROPOSAL = "recall proposal 99 | recall approve 99 | recall reject 99"
NO_SERVER = " | ".join(f"{words} --url {UNREACHABLE} --seconds 1" for words in ("ingest", "up", "up --only worker"))


def each(words: str, says: str) -> list[tuple[str, str]]:
    """Commands with what all of them say."""
    return [(command.strip(), says) for command in words.strip().replace("\n", "|").split("|")]


# What was given must change: 2.
GIVEN = [
    *each(NO_AGENT, "there is no agent called 'nobody'"),
    *each(NO_RUN, "there is no run 'nope'"),
    *each(NO_BACKTEST, "there is no backtest 'zz'"),
    *each(NO_PROPOSAL, "there is no proposal '99'"),
    *each(NO_SERVER, "nothing answers at"),
    ("context btc-5m FOO", "does not watch 'FOO'"),
    ("tick btc-5m FOO", "does not watch 'FOO'"),
    ("flatten btc-5m --symbol FOO", "nothing here trades 'FOO'"),
    ("market FOO", "the tape has nothing of 'FOO'"),
    ("agents add btc-5m --watch BTC", "already"),
    ("agents add x --watch BTC --engine zz", "there is no 'zz' among the engines"),
    ("agents show btc-5m --version 9", "has no version 9"),
    ("lessons demote zz", "nothing is promoted to 'zz'"),
    ("experience import btc-5m nodir", "is not a folder"),
    ("horizons set L9 x y z", "is not a layer"),
    ("recall add nodir", "is not a folder"),
    ("recall propose btc-5m --file nofile", "cannot be read"),
    ("import candles nofile --symbol BTC --interval 1m", "there is no file nofile"),
    ("import candles {file} --symbol BTC --interval 1m", "1 bad line, the first is 3"),
    ("import funding {file} --symbol BTC", "column"),
    ("import marks nofile --symbol BTC", "there is no file nofile"),
    ("import stream nofile", "there is no file nofile"),
    ("import fills nofile --agent btc-5m", "there is no file nofile"),
    ("export candles --symbol FOO --interval 1m --from 2026-01-01 --out {out}.csv", "FOO"),
    ("export stream --from 2026-01-01 --to 2026-01-02 --out {out}.log", "no payloads were recorded"),
    ("backtest btc-5m --from 2026-01-01 --to 2026-02-01", "the tape has no bars of BTC"),
    ("context btc-5m BTC --as-of 2999-01-01", "lies in the future"),
    ("init", "is a tapebook home already"),
    ("replay", "name one run"),
    ("up --only cook", "is not one of"),
    ("nonsense", "no such command"),
]


@pytest.fixture(scope="module")
def new_home(tmp_path_factory: pytest.TempPathFactory, made: Path) -> str:
    """A home that nothing happens in: every command on it fails."""
    return str(shutil.copytree(made, tmp_path_factory.mktemp("codes") / "home"))


@pytest.mark.parametrize(("words", "says"), GIVEN, ids=[words for words, _ in GIVEN])
def test_what_was_given_must_change(run: Run, new_home: str, tmp_path: Path, words: str, says: str) -> None:
    file = tmp_path / "bars.csv"
    file.write_text("time,open,high,low,close,volume\n2026-01-01T00:00:00Z,1,2,0.5,1,1\nx,1,2,3,4,5\n", "utf-8")
    given = words.format(file=file, out=tmp_path / "out").split()
    code, _, err = run(*given, *([] if words == "nonsense" else ["--home", new_home]))
    lines = [line for line in err.splitlines() if not line.startswith("import ")]
    assert code == 2 and len(lines) == 1 and lines[0].startswith("error: "), err
    assert says in lines[0].lower() or says in lines[0]


@pytest.mark.parametrize("words", ["agents", "up", "ingest", "doctor", "verify", "runs", "recall status", "backtests"])
def test_a_folder_that_is_no_home(run: Run, tmp_path: Path, words: str) -> None:
    code, out, err = run(*words.split(), "--home", str(tmp_path / "none"))
    assert (code, out, err.count("\n")) == (2, "", 1) and "no tapebook home at" in err


def test_a_key_that_is_refused_fails_a_tick(run: Run, own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with serving() as server:
        server.says(Said(401, {"error": {"message": "bad key"}}))
        settings = f'[llm]\nopenai_url = "{server.url}/v1"\nattempts = 1\n'
        (Path(own) / "tapebook.toml").write_text(settings, "utf-8")
        assert run("agents", "edit", "btc-5m", "--engine", "openai", "--home", own)[0] == 0
        code, _, err = run("tick", "btc-5m", "BTC", "--home", own)
    assert (code, err.count("\n")) == (1, 1) and "unauthorised" in err


@pytest.mark.parametrize("only", [[], ["--only", "worker"]])
def test_a_desk_in_which_everything_failed(
    run: Run, own: str, only: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: list[EventKind] = ["failure"]

    def desk(*_: object, lookout: HomeObserver, report: Callable[[object], None], **__: object) -> None:
        progress = RoleProgress("worker", "2 made", None) if only else SupervisorProgress({}, 0)
        report(progress)
        for kind in kinds:
            lookout.totals.failures += kind == "failure"
            lookout.totals.decisions += kind == "decision"
            lookout.show(HomeEvent(0, kind, "a", "BTC", "unauthorised: the server refused the key"))

    monkeypatch.setattr(app, "serve_role" if only else "run_desk", desk)
    code, out, err = run("up", *only, "--home", own)
    assert code == 1 and err == "error: nothing was decided, 1 failure: unauthorised: the server refused the key\n"
    assert out.splitlines()[-1].endswith("0 refusals, 1 failure")
    # One that decides something works, and says how often it did not.
    kinds.append("decision")
    code, out, err = run("up", *only, "--home", own)
    assert (code, err) == (0, "") and out.splitlines()[-1].startswith("1 decision (")


def test_an_extra_that_is_not_installed(run: Run, own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tapebook.db.postgres", None)
    (Path(own) / "tapebook.toml").write_text('[store]\nbook = "postgresql://localhost/x"\n', "utf-8")
    code, _, err = run("agents", "--home", own)
    assert (code, err.count("\n")) == (2, 1) and "pip install 'tapebook[postgres]'" in err


def test_a_server_that_is_away_may_be_back_later(run: Run, own: str) -> None:
    (Path(own) / "tapebook.toml").write_text('[store]\nbook = "postgresql://u:secret@127.0.0.1:1/x"\n', "utf-8")
    for words in ("agents", "doctor", "tick btc-5m BTC"):
        code, out, err = run(*words.split(), "--home", own)
        assert (code, out, err.count("\n")) == (Retry.exit_code, "", 1) and "secret" not in err
