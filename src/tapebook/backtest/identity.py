"""The inputs of a backtest: the rows it can read, the code that decides, the settings and the model.

A plan's id is taken over all of it (`BacktestInputs`), so another candle, another line of code or another model is
another backtest; a stored result is compared with what its inputs are now (`PlanFingerprints.changed_inputs`).

    data       every revision of every row about the plan's symbols that is known by its end, from `LOOK_BACK` before
               its start on (or twice what the agent looks back, if that is more); in which commit a row came, and
               what the tape has of other symbols and times, does not count
    code       all files of the package but its command line, and adapters that lie outside of it: engine, members,
               reflector, broker
    settings   what paper trading costs and allows, how long a decision waits for its bar, the default engine of an
               agent that names none; where a model is asked, all that is set about models, and where documents are
               seen, how they are searched
"""

import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from tapebook import plug
from tapebook.backtest.plan import BacktestInputs, BacktestPlan
from tapebook.decision import Engine
from tapebook.domain.agent import AgentProfile
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.units import DAY, MINUTE
from tapebook.errors import TapebookError
from tapebook.settings.config import MODEL_KEYS, Config
from tapebook.tape.store import Tape
from tapebook.tape.view import GRACE_MS, View

LOOK_BACK = 40 * DAY
"""How far before its start a plan's data begin at least: more than any fixed look-back of a decision."""

_PACKAGE = Path(plug.__file__).parent
_LEFT_OUT = {"surfaces", "__pycache__"}
_SOURCES = {".py", ".sql", ".json", ".toml", ".template", ".txt", ".md"}


class PlanFingerprints:
    """Inputs of plans as they are now.

    Digests of a symbol's rows are cached for as long as this lives, which is one command: nothing invalidates them.
    """

    def __init__(self, tape: Tape, config: Config, engine: Callable[[AgentProfile], Engine]) -> None:
        self._tape = tape
        self._config = config
        self._engine = engine
        self._head = tape.head()[0]
        self._digests: dict[tuple[str, int, int], str] = {}

    def with_inputs(self, plan: BacktestPlan) -> BacktestPlan:
        """A plan with its inputs in it."""
        settings = self._settings_sha256(plan)
        return msgspec.structs.replace(plan, settings_sha256=settings, inputs=self._inputs(plan))

    def changed_inputs(self, plan: BacktestPlan) -> tuple[str, ...]:
        """Which inputs of a plan are no longer what they were: `data`, `code`, `settings`.

        A plan of the first build says nothing of its inputs; the code, at least, is another since.
        """
        if plan.inputs is None:
            return ("code",)
        try:
            now = self.with_inputs(plan)
        except TapebookError:
            # An adapter is gone, or a key it needs: whatever made the result cannot be had as it was.
            return ("code",)
        assert now.inputs is not None
        same = {
            "data": now.inputs.data_sha256 == plan.inputs.data_sha256,
            "code": (now.inputs.code_sha256, now.inputs.version) == (plan.inputs.code_sha256, plan.inputs.version),
            "settings": (now.settings_sha256, now.inputs.model) == (plan.settings_sha256, plan.inputs.model),
        }
        return tuple(name for name, is_same in same.items() if not is_same)

    def _inputs(self, plan: BacktestPlan) -> BacktestInputs:
        return BacktestInputs(
            version=package_version(),
            data_sha256=self._data_sha256(plan),
            code_sha256=code_sha256(self._config, plan.agent),
            model=self._engine(plan.agent).identity,
        )

    def _data_sha256(self, plan: BacktestPlan) -> str:
        context = plan.agent.context
        back = max(LOOK_BACK, 2 * context.bar_minutes * context.bar_count * MINUTE)
        span = (plan.start - back, plan.end + GRACE_MS)
        return sha256_hex("\n".join(f"{symbol} {self._rows_sha256(symbol, *span)}" for symbol in plan.symbols).encode())

    def _rows_sha256(self, symbol: str, since: int, known_by: int) -> str:
        key = symbol, since, known_by
        if key not in self._digests:
            found = hashlib.sha256()
            for rows in self._tape.known_rows(symbol, since=since, view=View(known_by, self._head)):
                found.update(msgspec.msgpack.encode(rows))
            self._digests[key] = found.hexdigest()
        return self._digests[key]

    def _settings_sha256(self, plan: BacktestPlan) -> str:
        """The fill rule is the plan's own; what is set about models counts where one is asked."""
        config, agent = self._config, plan.agent
        asks = bool(self._engine(agent).identity) or agent.reflection.reflector in MODEL_KEYS
        decides = {
            "paper": msgspec.structs.replace(config.paper, fill=plan.fill),
            "engine": agent.engine or config.engine.default,
            "llm": config.llm if asks else None,
            "bar_wait_seconds": config.desk.bar_wait_seconds,
        }
        if plan.texts is not None and plan.texts.versions:
            decides["recall"] = config.recall
        return sha256_hex(msgspec.json.encode(decides, order="sorted"))


def code_sha256(config: Config, agent: AgentProfile) -> str:
    """One digest of the package and of all adapters of an agent that lie outside of it."""
    outside = [
        (f"{folder} {name}", path)
        for folder, name in _adapters_of_agent(config, agent)
        for path in _files_outside(folder, name)
    ]
    return sha256_hex(
        "\n".join([package_sha256(), *(f"{name} {_file_sha256(path)}" for name, path in outside)]).encode()
    )


def package_version() -> str:
    """The version that is installed; a package that is run from its source alone has none."""
    try:
        return version("tapebook")
    except PackageNotFoundError:
        return "from source"


@cache
def package_sha256() -> str:
    """One digest of the package's own files; while a process runs, they are what it has loaded."""
    found = [path for path in sorted(_PACKAGE.rglob("*")) if path.suffix in _SOURCES]
    places = [(path.relative_to(_PACKAGE), path) for path in found]
    counted = [f"{place.as_posix()} {_file_sha256(path)}" for place, path in places if not _LEFT_OUT & set(place.parts)]
    return sha256_hex("\n".join(counted).encode())


def _adapters_of_agent(config: Config, agent: AgentProfile) -> Iterator[tuple[str, str]]:
    for entry in (agent.engine or config.engine.default, *agent.members):
        yield "tapebook.decision.engines", entry.partition(":")[0]
    yield "tapebook.lessons.reflectors", agent.reflection.reflector
    yield "tapebook.broker.brokers", agent.broker


def _files_outside(folder: str, name: str) -> list[Path]:
    """The files of an adapter that are no part of this package: its module, or all of the package that it is in."""
    file = Path(plug.load(folder, name).__file__ or "")
    if file.is_relative_to(_PACKAGE):
        return []
    if not (file.parent / "__init__.py").exists():
        return [file]
    top = file.parent
    while (top.parent / "__init__.py").exists():
        top = top.parent
    return sorted(path for path in top.rglob("*") if path.suffix in _SOURCES)


def _file_sha256(path: Path) -> str:
    # An adapter that this process has loaded may have been deleted since: then it is another one.
    return sha256_hex(path.read_bytes()) if path.exists() else "deleted"
