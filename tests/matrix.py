"""How much of a large test a normal run does, and how much `make proof`."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

EXAMPLES = int(os.environ.get("TAPEBOOK_TEST_EXAMPLES", "25"))
"""Examples of a property in this run: `make proof` asks for twenty times as many."""


def examples(normal: int) -> int:
    """The examples of a property that needs another number than the usual fifty: half of them in a normal run."""
    return max(1, normal * EXAMPLES // 50)


def covering(rows: Iterable[Any], columns: Iterable[Any]) -> list[Any]:
    """Parameters for every pair of a row and a column; those that a normal run leaves out are marked `proof`."""
    across, down = list(columns), list(rows)
    cells = []
    for i, row in enumerate(down):
        for j, column in enumerate(across):
            is_covering = i % len(across) == j if len(down) >= len(across) else j % len(down) == i
            values = (*row, column) if isinstance(row, tuple) else (row, column)
            cells.append(pytest.param(*values, marks=[] if is_covering else pytest.mark.proof))
    return cells
