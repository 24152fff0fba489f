"""A source with a table of its own: the value locked in protocols and chains, from a file of lines.

{"subject": "aave", "kind": "protocol", "at": 1767571200000, "usd": "21000000000"}
"""

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec

from tapebook.domain.market import FeatureRow, SubjectKind
from tapebook.domain.units import HOUR
from tapebook.tape.families import Family
from tapebook.tape.source import SourceAdapter, SourceChannel, SourceContext, SourceProblem

CHANNEL = "value_locked"


class Settings(msgspec.Struct, frozen=True):
    """The section [defi_totals]."""

    file: Annotated[str, msgspec.Meta(min_length=1, description="the name of a file")] = "totals.jsonl"


class _Line(msgspec.Struct):
    subject: str
    kind: SubjectKind
    at: int
    usd: str


class DefiTotals:
    """Hands over every line of the file once."""

    def __init__(self, settings: Settings, context: SourceContext) -> None:
        self._settings, self._context = settings, context

    async def run(self) -> None:
        """Reads the file, and then has nothing more to say."""
        await self.barrier(self._context.clock())
        await asyncio.Event().wait()

    async def barrier(self, now: int) -> None:
        """Hands over what the file has by now."""
        for text in Path(self._settings.file).read_text("utf-8").splitlines():
            try:
                line = msgspec.json.decode(text, type=_Line)
            except msgspec.DecodeError as error:
                self._context.sink.add_problem(SourceProblem("defi_totals", "odd line", text[:20], str(error)))
                continue
            self._context.sink.add_kinds({line.subject: line.kind})
            metrics = msgspec.json.encode({"usd": line.usd}).decode()
            self._context.sink.add_observations([FeatureRow(line.subject, line.at, metrics, CHANNEL)])

    def connection_problem(self) -> str | None:
        """None: a file is always there."""
        return None

    def unlisted_settings(self) -> tuple[str, ...]:
        """Nothing: all of the file is taken."""
        return ()


SOURCE = SourceAdapter(
    name="defi_totals",
    channels=(
        SourceChannel(
            CHANNEL, 3 * HOUR, "features", Family(FeatureRow, "defi_totals_value_locked", CHANNEL, step_ms=HOUR)
        ),
    ),
    create=DefiTotals,
    settings=Settings,
    migrations="tapebook.sources.defi_totals",
    remedies={"odd line": "correct the line of the file"},
)
