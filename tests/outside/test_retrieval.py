"""Five sets of real questions: words and meaning together are nowhere worse than the better of the two, and better on
average.

Runs where TAPEBOOK_OUTSIDE_DATA names the folder of recorded data; nothing of it is part of this project. The two
constants of `score` and the one of `fuse` were chosen on these questions; how little the choice matters is said in
docs/decisions.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.search.judged import JudgedSet, Measured, interval, judged_sets, measured
from tests.search.sample_docs import indexed

pytestmark = pytest.mark.outside

ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "words": ("sqlite_fts", {}),
    "meaning": ("hybrid_embeddings", {"lexical_percent": 0, "semantic_percent": 100}),
    "both": ("hybrid_embeddings", {}),
}
# What FTS5's own ranking gives with all words OR-ed, over these questions.
FTS5 = {
    **{"cranfield": 0.351, "financebench_pages": 0.384, "locomo_turns": 0.456},
    **{"mtrag_un": 0.773, "tatqa_paragraphs": 0.452},
}


@pytest.fixture(scope="module")
def sets() -> list[JudgedSet]:
    """The sets with their documents."""
    return judged_sets(Path(os.environ["TAPEBOOK_OUTSIDE_DATA"]) / "retrieval")


@pytest.fixture(scope="module")
def results(sets: list[JudgedSet], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Measured]]:
    """nDCG@10 and Recall@10 of every question, by set and arm; the arms share a file."""
    found: dict[str, dict[str, Measured]] = {}
    for each in sets:
        found[each.name] = {}
        path = str(tmp_path_factory.mktemp(each.name) / "recall.db")
        with indexed("hybrid_embeddings", each.papers, path=path):
            pass
        for arm, (slot, terms) in ARMS.items():
            with indexed(slot, path=path, **terms) as index:
                found[each.name][arm] = measured(each, index)
    return found


def test_both_are_nowhere_worse_than_the_better_one(results: dict[str, dict[str, Measured]]) -> None:
    assert results.keys() == FTS5.keys()
    for name, arms in results.items():
        for measure in (0, 1):
            better = max(("words", "meaning"), key=lambda arm: arms[arm][:, measure].mean())
            _, high = interval(arms["both"][:, measure] - arms[better][:, measure])
            assert high >= 0, f"{name}: both are worse than {better}"


def test_both_are_better_on_average(results: dict[str, dict[str, Measured]]) -> None:
    means = {arm: np.mean([arms[arm].mean(axis=0) for arms in results.values()], axis=0) for arm in ARMS}
    assert (means["both"] > np.maximum(means["words"], means["meaning"]) + 0.005).all(), means
    differences = [arms["both"] - arms["words"] for arms in results.values()]
    low, _ = interval(np.concatenate([each / len(each) for each in differences]) * sum(map(len, differences)) / 5)
    assert (low > 0).all(), "the gain over all sets, each counted alike, may be luck"


def test_words_alone_are_no_worse_than_fts5(results: dict[str, dict[str, Measured]]) -> None:
    for name, arms in results.items():
        _, high = interval(arms["words"][:, 0])
        assert high >= FTS5[name]
    mean = np.mean([arms["words"][:, 0].mean() for arms in results.values()])
    assert mean > np.mean(list(FTS5.values())) + 0.03
