"""Sets of questions with judged answers in BEIR's layout, through an index: how good its rankings are.

nDCG@10 is how near a ranking of documents comes to the best there is, Recall@10 how many of the right ones are among
the first ten. A document counts where its first chunk stands.
"""

import gzip
import json
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.search import GLOBAL_SCOPE, Index
from tests.search.sample_docs import Paper, paper

FIRST = 10
_ENOUGH = 40
_SAMPLES = 2_000

Measured = NDArray[np.float64]


class JudgedSet(msgspec.Struct, frozen=True):
    """Documents by path, questions by id, and which documents answer each, how well."""

    name: str
    papers: list[Paper]
    ids: dict[str, str]
    questions: dict[str, str]
    judged: dict[str, dict[str, int]]


def judged_sets(folder: Path) -> list[JudgedSet]:
    """Every set below a folder."""
    return [_read(each) for each in sorted(folder.iterdir()) if each.is_dir()]


def _read(folder: Path) -> JudgedSet:
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        documents = [json.loads(line) for line in file]
    papers, ids = [], {}
    for seq, document in enumerate(documents, start=1):
        path, title = f"notes/{seq}.md", document["title"]
        papers.append(paper(seq, path, f"# {title}\n\n{document['text']}\n" if title else f"{document['text']}\n"))
        ids[path] = document["_id"]
    lines = (folder / "queries.dev.jsonl").read_text("utf-8").splitlines()
    questions = {each["_id"]: each["text"] for each in map(json.loads, lines)}
    judged: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.dev.tsv").read_text("utf-8").splitlines()[1:]:
        question, document_id, score = line.split("\t")
        judged.setdefault(question, {})[document_id] = int(score)
    return JudgedSet(folder.name, papers, ids, questions, judged)


def measured(judged: JudgedSet, index: Index) -> Measured:
    """One row per question: nDCG@10 and Recall@10."""
    rows = []
    for key, question in judged.questions.items():
        answer = index.search(question, scopes=(GLOBAL_SCOPE,), seq=index.head(), limit=_ENOUGH)
        ranked = list(dict.fromkeys(judged.ids[each.path] for each in answer.citations))[:FIRST]
        rows.append(_scores(ranked, judged.judged[key]))
    return np.array(rows)


def _scores(ranked: Sequence[str], right: dict[str, int]) -> tuple[float, float]:
    gains = [right.get(document, 0) for document in ranked]
    best = _discounted(sorted(right.values(), reverse=True)[:FIRST])
    return _discounted(gains) / best, sum(gain > 0 for gain in gains) / sum(score > 0 for score in right.values())


def _discounted(gains: Sequence[int]) -> float:
    return math.fsum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


def interval(values: Measured) -> tuple[Measured, Measured]:
    """The ends between which the mean of such a sample lies 95 times of 100, by drawing it again and again."""
    dice = np.random.default_rng(1)
    means = [values[dice.integers(0, len(values), len(values))].mean(axis=0) for _ in range(_SAMPLES)]
    low, high = np.percentile(np.array(means), [2.5, 97.5], axis=0)
    return low, high
