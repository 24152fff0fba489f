"""Two workers decide five thousand pairs, each once; one of them is killed and one is stopped on the way."""

import json
import signal
import time
from pathlib import Path

import pytest

from tests.db.places import sql
from tests.desk.busy_desk import Hand, assert_once_each, await_idle, opened, settle
from tests.replay.stage import Stage

pytestmark = pytest.mark.soak

FIGURES = Path(__file__).parents[2] / "docs" / "figures" / "workers.json"
PAIRS = 5_000


@pytest.mark.parametrize("store", ["SQLite", "PostgreSQL"])
def test_two_workers_decide_five_thousand_pairs_once_each(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    stage = Stage(tmp_path, str(request.getfixturevalue("postgres_dsn")) if store == "PostgreSQL" else "")
    home = settle(stage, pairs=PAIRS)
    begun = time.monotonic()
    hands = [Hand(home, seconds=600), Hand(home, seconds=600)]
    await_idle(home, seconds=600)
    took = time.monotonic() - begun
    made = [int(hand.leave()["words"].split()[0].replace(",", "")) for hand in hands]
    assert sum(made) == PAIRS and min(made) > 0
    assert assert_once_each(home, pairs=PAIRS) == {"held": PAIRS}
    stage.clear()
    _store(store, {"pairs": PAIRS, "made_by_each": made, "seconds": round(took, 1), "per_second": round(PAIRS / took)})


@pytest.mark.parametrize("store", ["SQLite", "PostgreSQL"])
def test_storm_of_kills_and_stops_decides_once_each(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    stage = Stage(tmp_path, str(request.getfixturevalue("postgres_dsn")) if store == "PostgreSQL" else "")
    home = settle(stage, pairs=PAIRS, lease_seconds=1.0, batch=4, calls_in_flight=40)
    stopped, kills = Hand(home, seconds=900), 0
    last = Hand(home, seconds=900)
    while _left(home):
        victim = Hand(home, seconds=900)
        time.sleep(4.0)
        stopped.process.send_signal(signal.SIGCONT if kills % 2 else signal.SIGSTOP)
        victim.process.kill()
        victim.process.communicate()
        kills += 1
    stopped.process.send_signal(signal.SIGCONT)
    time.sleep(2)
    words = [hand.leave()["words"] for hand in (stopped, last)]
    assert assert_once_each(home, pairs=PAIRS) == {"held": PAIRS}
    # The killed have made some of them, and some of what they had begun was made by others.
    by_survivors = sum(int(each.split()[0].replace(",", "")) for each in words)
    assert by_survivors < PAIRS and _take_overs(home) > 0
    figures = {"pairs": PAIRS, "kills": kills, "survivors": words, "take_overs": _take_overs(home)}
    stage.clear()
    _store(f"{store}, with kills and stops", figures)


def _take_overs(home: Path) -> int:
    """Deployments that had more holders than one decides for: each slot needs one epoch."""
    with opened(home) as rooms:
        return len(rooms.book_db.all(sql("SELECT deployment FROM leases WHERE epoch > 1")))


def _left(home: Path) -> int:
    with opened(home) as rooms:
        return sum(rooms.work.counts_by_state().values())


def _store(name: str, figures: dict[str, object]) -> None:
    known = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(known | {name: figures}, indent=2, sort_keys=True) + "\n", "utf-8")
