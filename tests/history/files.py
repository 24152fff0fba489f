"""Small files of history for tests, and the question most of them are asked."""

import gzip
from collections.abc import Sequence
from pathlib import Path

from tapebook.domain.market import Candle
from tapebook.domain.units import E8, MINUTE, SECOND
from tapebook.history.import_file import parse_file
from tapebook.history.importer import ImportKind, ImportRequest, ParsedFile
from tapebook.tape.view import span_ms

MIDNIGHT = 1_690_156_800_000
"""2023-07-24T00:00:00Z"""

NOW = 1_800_000_000_000
HEADER = "timestamp,open,high,low,close,volume"


def lines(rows: int, *, step: int = MINUTE, first: int = MIDNIGHT) -> list[str]:
    """The lines of a CSV file without its header: prices climb by one, with half a point around them."""
    return [f"{first + n * step},{100 + n},{101 + n}.5,{99 + n}.5,{101 + n},{n}.25" for n in range(rows)]


def bars(rows: int, *, step: int = MINUTE, symbol: str = "BTC") -> list[Candle]:
    """What these lines say."""
    found = []
    for n in range(rows):
        prices = ((100 + n) * E8, (203 + 2 * n) * E8 // 2, (199 + 2 * n) * E8 // 2, (101 + n) * E8)
        volume = n + 0.25
        found.append(
            Candle(symbol, step // SECOND, MIDNIGHT + n * step, *prices, volume, volume * sum(prices) / (4 * E8), 0)
        )
    return found


def write(folder: Path, text: str | bytes | Sequence[str], name: str = "file.csv") -> Path:
    """A file with this content; a list is written as lines, a name in .gz is packed."""
    content = text if isinstance(text, bytes) else (text if isinstance(text, str) else "\n".join(text) + "\n").encode()
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def ask(
    kind: ImportKind = "candles", *, symbol: str | None = "BTC", interval: str | None = "1m", now: int = NOW
) -> ImportRequest:
    """The question what a file holds."""
    return ImportRequest(kind, symbol, None if interval is None else span_ms(interval), now)


def parsed(
    folder: Path, text: str | bytes | Sequence[str], name: str = "file.csv", *, asked: ImportRequest | None = None
) -> ParsedFile:
    """A file with this content, parsed."""
    return parse_file(write(folder, text, name), asked or ask())


def whys(found: ParsedFile) -> list[tuple[int, str]]:
    """The bad rows that are shown."""
    return [(problem.row, problem.why) for problem in found.problems]
