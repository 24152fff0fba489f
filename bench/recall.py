"""Recall: natural questions to a thousand chunks and up to a hundred thousand, and how fast those are indexed.

Floors, measured in the same run: for words, FTS5 with all words of the question OR-ed and its own ranking; for words
and meaning, one product of bare numpy over the same number of vectors, and nothing else. Chunks have about a hundred
words of a vocabulary as uneven as that of prose; a question has some words of one chunk and those every sentence has.

Where TAPEBOOK_OUTSIDE_DATA names recorded data, the rankings are measured too: five sets of judged questions, by words,
by meaning and by both, with the ends of the interval that holds the mean 95 times of 100.
"""

import gc
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path

import apsw
import numpy as np

from bench.figure import Figure, seconds
from tapebook.search import GLOBAL_SCOPE, Index
from tests.outside.test_retrieval import ARMS
from tests.search.judged import interval, judged_sets, measured
from tests.search.sample_docs import Paper, indexed, paper

SIZES = (1_000, 10_000, 50_000, 100_000)
SECTIONS = 20
WORDS = 100
QUESTIONS = 200
COMMON = "the of to and a in is that for it was on with as be at by this".split()  # noqa: SIM905
SYLLABLES = "ka lo mi ne ru ta vo shi pe du gra lin sto mar ber con tra fle".split()  # noqa: SIM905
SHARES = (0.5, 0.95, 0.99)
Work = Callable[[], object]
_OPENED = """
import sys
import psutil
from tests.search.sample_docs import asked, indexed
before = psutil.Process().memory_info().rss
with indexed(sys.argv[1], path=sys.argv[2]) as index:
    for question in sys.argv[3:]:
        asked(index, question, limit=10)
    print((psutil.Process().memory_info().rss - before) / 2**20)
"""


def run() -> list[Figure]:
    """All figures of recall."""
    figures = []
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            figures += _sized(Path(folder), size)
    if outside := os.environ.get("TAPEBOOK_OUTSIDE_DATA"):
        figures += _rankings(Path(outside) / "retrieval")
    return figures


def _sized(folder: Path, size: int) -> list[Figure]:
    papers = list(_papers(size))
    questions = _questions(papers)
    path, many = str(folder / "recall.db"), f"{size:,} chunks"
    with indexed("sqlite_fts", path=path) as index:
        words = seconds(lambda: index.index(papers))
    with indexed("hybrid_embeddings", papers[:1]):
        # The tokenizer is read once per process.
        pass
    start = time.perf_counter()
    with indexed("hybrid_embeddings", path=path) as index:
        meaning = time.perf_counter() - start
        held, stored = index.counts(), sum(file.stat().st_size for file in folder.iterdir())
    floor = apsw.Connection(str(folder / "floor.db"))
    plain = seconds(lambda: _fill(floor, papers))
    figures = [
        Figure(f"indexing words, {many}", held.chunks / words, "chunks/s", held.chunks / plain, plain / words),
        Figure(f"embedding, {many}", held.chunks / meaning, "chunks/s"),
        Figure(f"bytes of a chunk, words and vectors, {many}", stored / held.chunks, "bytes"),
        *_searching(path, floor, questions, many=many),
        *(_memory(slot, path, questions, many) for slot in ("sqlite_fts", "hybrid_embeddings")),
    ]
    floor.close()
    return figures


def _searching(path: str, floor: apsw.Connection, questions: list[str], *, many: str) -> list[Figure]:
    vectors = np.random.default_rng(1).normal(size=(int(many.split()[0].replace(",", "")) * 2, 256)).astype(np.float32)

    def fts5(question: str) -> object:
        terms = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        statement = "SELECT rowid, bm25(papers) FROM papers WHERE papers MATCH ? ORDER BY rank LIMIT 10"
        return floor.execute(statement, (terms,)).fetchall()

    def product(_question: str) -> object:
        return np.argpartition(vectors @ vectors[0], -10)[-10:]

    figures = []
    for name, slot, below in (
        ("by words", "sqlite_fts", fts5),
        ("by words and meaning", "hybrid_embeddings", product),
    ):
        with indexed(slot, path=path) as index:
            _ask(index, questions[0])
            second = 1e3 * seconds(partial(_ask, index, questions[1]))
            times = _in_turn(partial(_ask, index), below, questions)
        figures += _figures(f"a question {name}, {many}", times)
        figures.append(Figure(f"the second question {name} of a process, {many}", second, "ms"))
        opening = sorted(1e3 * seconds(partial(_opened, slot, path, questions[0])) for _ in range(9))
        figures.append(Figure(f"opening and a first question {name}, {many}, p50", opening[4], "ms"))
    return figures


def _ask(index: Index, question: str) -> object:
    return index.search(question, scopes=(GLOBAL_SCOPE, "agent"), seq=index.head(), limit=10)


def _opened(slot: str, path: str, question: str) -> None:
    with indexed(slot, path=path) as index:
        _ask(index, question)


Took = tuple[float, float]


def _in_turn(ours: Callable[[str], object], floor: Callable[[str], object], questions: list[str]) -> list[list[Took]]:
    """Times of two works done in turn, by the clock and of the processor: others at work slow the first alone."""
    ours(questions[0])
    floor(questions[0])
    gc.collect()
    pairs = [(_took(ours, question), _took(floor, question)) for question in questions]
    return [[pair[0] for pair in pairs], [pair[1] for pair in pairs]]


def _took(work: Callable[[str], object], question: str) -> Took:
    start, clock = time.thread_time(), time.perf_counter()
    work(question)
    return time.perf_counter() - clock, time.thread_time() - start


def _figures(name: str, times: list[list[Took]]) -> list[Figure]:
    found = []
    for share in SHARES:
        for kind, words in enumerate(("", ", processor alone")):
            ours, floor = (sorted(1e3 * took[kind] for took in each) for each in times)
            place = min(int(share * len(ours)), len(ours) - 1)
            aim = "≤ 20" if share == 0.95 and not kind else ""
            at = f"{name}, p{share * 100:.0f}{words}"
            found.append(Figure(at, ours[place], "ms", floor[place], floor[place] / ours[place], aim))
    return found


def _memory(slot: str, path: str, questions: list[str], many: str) -> Figure:
    """What a process that asks holds more than one that has only imported the same."""
    command = [sys.executable, "-c", _OPENED, slot, path, *questions[:20]]
    done = subprocess.run(command, env={"PYTHONPATH": "src:."}, capture_output=True, text=True, check=True)
    return Figure(f"memory of a process that asks {slot}, {many}", float(done.stdout), "MB")


def _fill(floor: apsw.Connection, papers: list[Paper]) -> None:
    floor.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
    floor.execute("CREATE VIRTUAL TABLE papers USING fts5(text, tokenize = 'porter unicode61')")
    with floor:
        for _, body in papers:
            parts = [(part,) for part in body.decode().split("\n\n## ")]
            floor.executemany("INSERT INTO papers (text) VALUES (?)", parts)


def _papers(size: int) -> Iterator[Paper]:
    chance = random.Random(1)
    draw = _vocabulary(chance)
    for seq in range(1, size // SECTIONS + 1):
        sections = [f"{draw(3)}\n\n{draw(WORDS)}." for _ in range(SECTIONS)]
        yield paper(seq, f"notes/{seq}.md", "## " + "\n\n## ".join(sections))


def _vocabulary(chance: random.Random) -> Callable[[int], str]:
    """Draws so many words: the n-th most frequent of thirty thousand as often as 1/n says, as in prose."""
    made = [*COMMON, *("".join(chance.choices(SYLLABLES, k=chance.randint(2, 4))) for _ in range(30_000))]
    weights, total = [], 0.0
    for rank in range(len(made)):
        total += 1 / (rank + 3)
        weights.append(total)
    return lambda count: " ".join(chance.choices(made, cum_weights=weights, k=count))


def _questions(papers: list[Paper]) -> list[str]:
    chance, asked = random.Random(2), []
    for at in cycle(range(0, len(papers), max(1, len(papers) // QUESTIONS))):
        words = chance.choice(papers[at][1].decode().split("\n\n")).split()
        telling = [word for word in dict.fromkeys(words) if word.isalpha() and word not in COMMON]
        if len(telling) >= 5:
            asked.append(f"what is the {' of the '.join(chance.sample(telling, 5))} in that?")
        if len(asked) == QUESTIONS:
            return asked
    raise AssertionError


def _rankings(folder: Path) -> list[Figure]:
    figures = []
    for each in judged_sets(folder):
        with tempfile.TemporaryDirectory() as home:
            path = f"{home}/recall.db"
            with indexed("hybrid_embeddings", each.papers, path=path):
                pass
            for arm, (slot, terms) in ARMS.items():
                with indexed(slot, path=path, **terms) as index:
                    found = measured(each, index)
                low, high = interval(found)
                for at, name in enumerate(("nDCG@10", "Recall@10")):
                    where = f"{each.name}, {arm}, {name} ({100 * low[at]:.1f} to {100 * high[at]:.1f})"
                    figures.append(Figure(where, 100 * float(found[:, at].mean()), "%"))
    return figures
