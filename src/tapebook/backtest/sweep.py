"""Many backtests from one file: every combination of what it varies, on this machine's cores or on a Dask cluster.

    agents = ["btc-5m"]

    [options]                       # of `tapebook backtest`, the same for all
    start = "2025-01-01"
    chunks = "month"

    [vary]                          # every combination of these
    memory = ["on", "off"]

    [vary.agent]                    # and of these keys of the agent's profile
    max_leverage = [1, 2, 3]

`read_sweep` gives the cases in a fixed order; `run_sweep` runs them and gives their results in that order, however many
run at once and wherever. A case is a plan, which is all that decides a backtest's outcome, and the folder of the home:
no connection, setting or key travels. A worker that is killed loses nothing: its case is begun again, on another worker
if need be, and goes on where it stopped.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from importlib import import_module
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from tapebook.backtest.plan import BacktestPlan
from tapebook.backtest.result import BacktestResult
from tapebook.backtest.run import BacktestCallbacks, run_backtest
from tapebook.errors import BadInput, Fix, HomeError, TapebookError
from tapebook.settings.config import load_config

# A case whose worker dies so often takes too much memory, or has another reason that trying again does not mend.
_MOST_ATTEMPTS = 3
_MOST_CASES = 10_000
_CONNECT_SECONDS = 10


class SweepCase(msgspec.Struct, frozen=True):
    """One backtest of a sweep: the agent, the options of the backtest, and what its profile has otherwise."""

    agent: str
    options: dict[str, Any]
    profile: dict[str, Any]

    @property
    def words(self) -> str:
        """What is particular about it, for a line of a table."""
        return ", ".join(f"{key}={value}" for key, value in {**self.options, **self.profile}.items())


class SweepRow(msgspec.Struct, frozen=True):
    """A case with what it came to."""

    case: SweepCase
    result: BacktestResult


def read_sweep(path: Path) -> list[SweepCase]:
    """The cases of a file in the order in which it names them; BadInput says what is wrong with it."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise BadInput(f"{path} is not TOML: {error}") from error
    return sweep_cases(found, str(path))


def sweep_cases(found: Mapping[str, Any], name: str) -> list[SweepCase]:
    """Every combination of what is varied, the last key fastest."""
    if unknown := sorted(found.keys() - {"agents", "options", "vary"}):
        raise BadInput(f"{name}: a sweep has no {unknown[0]!r}: it has agents, [options], [vary] and [vary.agent]")
    agents, options, vary = found.get("agents", []), found.get("options", {}), dict(found.get("vary", {}))
    if not isinstance(agents, list) or not agents or not all(isinstance(each, str) for each in agents):
        raise BadInput(f'{name}: say which agents: agents = ["btc-5m"]')
    profile = vary.pop("agent", {})
    if not (isinstance(options, dict) and isinstance(profile, dict)):
        raise BadInput(f"{name}: [options] and [vary.agent] are sections with keys below them")
    lists = [("options", key, values) for key, values in vary.items()]
    lists += [("profile", key, values) for key, values in profile.items()]
    for _, key, values in lists:
        if not isinstance(values, list) or not values:
            raise BadInput(f"{name}: `{key}` is varied: give a list of values, such as {key} = [1, 2]")
    cases = []
    for agent, *chosen in product(agents, *(values for _, _, values in lists)):
        own: dict[str, dict[str, Any]] = {"options": dict(options), "profile": {}}
        for (where, key, _), value in zip(lists, chosen, strict=True):
            own[where][key] = value
        cases.append(SweepCase(agent, own["options"], own["profile"]))
        if len(cases) > _MOST_CASES:
            raise BadInput(f"{name}: more than {_MOST_CASES} backtests: vary less at once")
    return cases


class SweepJob(msgspec.Struct, frozen=True):
    """What a worker is sent: the plan, and what its models may cost."""

    plan: BacktestPlan
    max_usd_e6: int


def run_job(home: str, job: bytes) -> bytes:
    """Runs one job below a home and gives its result, both as text that any process can read."""
    asked, place = msgspec.json.decode(job, type=SweepJob), Path(home)
    result = run_backtest(place, load_config(place), asked.plan, watch=BacktestCallbacks(), max_usd_e6=asked.max_usd_e6)
    return msgspec.json.encode(result)


def run_sweep(
    home: Path, asked: Sequence[SweepJob], *, workers: int, cluster: str | None, done: Callable[[int], None]
) -> list[BacktestResult]:
    """Runs jobs, some at a time, and gives their results in their order; `done` hears how many have ended."""
    # Two equal plans are one backtest, which only one worker can make.
    jobs = {job.plan.id: msgspec.json.encode(job) for job in asked}
    place = str(home.absolute())
    found = _on_cluster(cluster, place, jobs, done) if cluster else _on_pool(workers, place, jobs, done)
    results = {name: msgspec.json.decode(content, type=BacktestResult) for name, content in found.items()}
    return [results[job.plan.id] for job in asked]


def _on_pool(workers: int, home: str, jobs: Mapping[str, bytes], done: Callable[[int], None]) -> dict[str, bytes]:
    """Runs jobs in processes of this machine; when one is killed, those that were under way are begun again."""
    results: dict[str, bytes] = {}
    for _ in range(_MOST_ATTEMPTS):
        left = {name: job for name, job in jobs.items() if name not in results}
        for name, content in _pool_results(workers, home, left):
            results[name] = content
            done(len(results))
        if len(results) == len(jobs):
            return results
    raise TapebookError("a worker was killed three times: see that there is enough memory, or use fewer `workers=`")


def _pool_results(workers: int, home: str, jobs: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """The results of jobs as they end; those of a killed process are left out, with all that were under way."""
    # Not forked: a child must not share the connections of this process.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        futures = {pool.submit(run_job, home, job): name for name, job in jobs.items()}
        for future in as_completed(futures):
            with suppress(BrokenProcessPool):
                yield futures[future], future.result()
    finally:
        # After an error, what is under way ends; the sweep goes on from there when it is run again.
        pool.shutdown(cancel_futures=True)


def _on_cluster(address: str, home: str, jobs: Mapping[str, bytes], done: Callable[[int], None]) -> dict[str, bytes]:
    """Runs jobs on a Dask cluster whose workers see the home under the same path; Dask redoes those of dead workers."""
    try:
        distributed: Any = import_module("distributed")
    except ModuleNotFoundError as error:
        raise Fix("`cluster=` needs Dask: pip install 'tapebook[cluster]'") from error
    try:
        client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise HomeError(f"no Dask scheduler answers at {address}: start one, or check the address") from error
    results: dict[str, bytes] = {}
    with client, client.as_current():
        # Equal arguments would be one task; a backtest writes, so Dask must not take it for a pure function.
        futures = {client.submit(run_job, home, job, pure=False): name for name, job in jobs.items()}
        for future in distributed.as_completed(list(futures)):
            results[futures[future]] = future.result()
            done(len(results))
    return results
