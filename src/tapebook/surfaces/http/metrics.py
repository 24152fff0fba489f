"""Figures of a home for Prometheus, at `/metrics`: those of its owner, as of the moment they are asked for."""

from collections.abc import Iterable, Sequence

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from tapebook.api.app import Tapebook
from tapebook.domain.units import parse_instant
from tapebook.surfaces.http.access import Reader
from tapebook.surfaces.http.answers import TypedRoute

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Enough for a high quantile, and few enough to be read at every scrape.
_TICKS = 100

_metrics = APIRouter(route_class=TypedRoute, tags=["home"])


@_metrics.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
)
def show_metrics(caller: Reader) -> Response:
    """Equity, positions, decisions, lag of the market, durations of ticks and costs, for Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_HomeCollector(caller.book))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE)


class _HomeCollector(Collector):
    """The figures of one home; nothing is kept from one scrape to the next."""

    def __init__(self, book: Tapebook) -> None:
        self._book = book

    def collect(self) -> Iterable[Metric]:
        """Every figure."""
        status = self._book.status()
        accounts, positions = status["accounts"], [held for each in status["accounts"] for held in each["positions"]]
        by_agent = [("equity_usd", "What an account is worth."), ("cash_usd", "The cash of an account.")]
        by_agent += [("exposure_usd", "The value of what is held."), ("day_usd", "What today came to.")]
        for name, help_text in by_agent:
            rows = [((each["agent"],), float(each[name])) for each in accounts]  # type: ignore[literal-required]
            yield _gauge(name, help_text, ("agent",), rows)
        sized = [((each["agent"], each["symbol"], each["side"]), each["value_usd"]) for each in positions]
        yield _gauge("position_value_usd", "The value of a position.", ("agent", "symbol", "side"), sized)
        halted = [((each["agent"],), float(each["halted"] is not None)) for each in accounts]
        yield _gauge("halted", "Whether an agent is halted.", ("agent",), halted)
        yield _gauge("working_orders", "Orders that have not ended.", (), [((), len(status["orders"]))])
        yield _gauge("model_usd_today", "What models cost today.", (), [((), status["model_usd_today"])])
        yield _gauge("failed_checks", "Checks of the home that fail.", (), [((), len(status["incidents"]))])
        runs = CounterMetricFamily("tapebook_runs", "Decisions by status.", labels=("status",))
        for state, count in self._book.run_counts().items():
            runs.add_metric((state,), count)
        yield runs
        lags = [((each.name,), each.lag_seconds) for each in self._book.channels() if each.lag_seconds is not None]
        yield _gauge("channel_lag_seconds", "Since a channel of the market was heard last.", ("channel",), lags)
        yield self._tick_durations()

    def _tick_durations(self) -> Metric:
        """How long the newest decisions took, from what they knew to what was recorded."""
        runs = [each for each in self._book.runs(most=_TICKS) if each["started_at"] is not None]
        took = sorted((parse_instant(run["created_at"]) - parse_instant(run["as_of"])) / 1000 for run in runs)
        found = SummaryMetricFamily("tapebook_tick_seconds", f"Durations of the newest {_TICKS} decisions.")
        found.add_metric((), len(took), sum(took))
        for quantile in ("0.5", "0.99") if took else ():
            labels = {"quantile": quantile}
            found.add_sample(
                "tapebook_tick_seconds", labels, took[min(len(took) - 1, int(float(quantile) * len(took)))]
            )
        return found


def _gauge(
    name: str, help_text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    found = GaugeMetricFamily(f"tapebook_{name}", help_text, labels=labels)
    for values, number in rows:
        found.add_metric(values, number)
    return found


METRICS_ROUTER = _metrics
"""The route of metrics, which stands beside the API."""
