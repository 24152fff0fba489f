"""`make proof`: an end before every single act of every kind of moment, by desk and crew, on SQLite and PostgreSQL."""

from pathlib import Path

import pytest

from tests.replay import desk
from tests.replay.conftest import Servers, Tellers
from tests.replay.moments import MOMENTS, end_everywhere, every, every_other_disk, moment
from tests.replay.stage import Stage

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("kind", MOMENTS)
@pytest.mark.parametrize("hands", ["desk", "crew"])
@pytest.mark.parametrize("store", ["SQLite", "PostgreSQL"])
def test_ended_before_every_act(
    store: str, hands: desk.Hands, kind: str, told: Tellers, server: Servers, place: Path
) -> None:
    story = MOMENTS[kind][0]
    # On a server a copy takes longer, and an end after a read leaves what an end before it leaves.
    points = every if store == "SQLite" else every_other_disk
    stage = Stage(place, server(store))
    acts = end_everywhere(moment(told(story), kind), stage, points=points, story=story, hands=hands)
    assert len(acts) > 50
