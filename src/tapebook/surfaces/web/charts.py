"""Options of the charts, as ECharts takes them.

One set of middle tones stands on a light and on a dark ground. Rising is blue and falling is orange, so nobody has to
tell red from green; marks differ by their shapes too.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from tapebook.domain.units import parse_instant

UP, DOWN, QUIET, LINE, BAND = "#3b8eea", "#d9822b", "#8593a3", "#8593a333", "#3b8eea33"
Options = dict[str, Any]

_TEXT = {"color": QUIET, "fontSize": 11, "fontFamily": "system-ui, sans-serif"}


# The first label of a day says which: a bare number would be read as an hour.
_TIMES = {
    **{"year": "{yyyy}", "month": "{MMM} {yyyy}", "day": "{MMM} {d}"},
    **{"hour": "{HH}:{mm}", "minute": "{HH}:{mm}", "second": "{HH}:{mm}:{ss}"},
}


def _time_axis(**more: Any) -> Options:
    labels = {**_TEXT, "hideOverlap": True, "formatter": _TIMES}
    return _axis(type="time", splitLine={"show": False}, **{"axisLabel": labels, **more})


def _axis(**more: Any) -> Options:
    return {
        "axisLine": {"lineStyle": {"color": LINE}},
        "axisTick": {"show": False},
        "axisLabel": {**_TEXT, "hideOverlap": True},
        "splitLine": {"lineStyle": {"color": LINE}},
        **more,
    }


def _base(**more: Any) -> Options:
    return {
        "animation": False,
        "useUTC": True,
        "textStyle": _TEXT,
        "tooltip": {
            "trigger": "axis",
            "confine": True,
            "renderMode": "richText",
            "axisPointer": {"type": "cross", "label": {"show": False}},
        },
        **more,
    }


def equity_options(equity: Mapping[str, Any]) -> Options:
    """Equity above, and below it how far it is under its highest."""
    times = [parse_instant(point["at"]) for point in equity["points"]]
    worth = [[at, round(point["equity_usd"], 2)] for at, point in zip(times, equity["points"], strict=True)]
    under = [[at, round(-100 * point["drawdown_share"], 3)] for at, point in zip(times, equity["points"], strict=True)]
    line = {"type": "line", "showSymbol": False, "step": "end", "lineStyle": {"width": 1.6}}
    return _base(
        grid=[
            {"left": 64, "right": 16, "top": 12, "height": "60%"},
            {"left": 64, "right": 16, "top": "76%", "bottom": 24},
        ],
        xAxis=[
            _time_axis(gridIndex=0, axisLabel={"show": False}),
            _time_axis(gridIndex=1),
        ],
        yAxis=[
            _axis(type="value", gridIndex=0, scale=True, splitNumber=4),
            _axis(type="value", gridIndex=1, splitNumber=2, max=0, axisLabel={**_TEXT, "formatter": "{value}%"}),
        ],
        axisPointer={"link": [{"xAxisIndex": "all"}]},
        series=[
            {
                **line,
                "name": "equity USD",
                "data": worth,
                "itemStyle": {"color": UP},
                "areaStyle": {"color": BAND, "origin": "start"},
            },
            {
                **line,
                "name": "drawdown %",
                "data": under,
                "xAxisIndex": 1,
                "yAxisIndex": 1,
                "itemStyle": {"color": DOWN},
                "areaStyle": {"color": f"{DOWN}44"},
            },
        ],
    )


# A mark's shape and colour say what it is; the legend names it.
MARKS: dict[str, tuple[str, str]] = {
    "entry long": ("triangle", UP),
    "entry short": ("path://M0,0 L10,0 L5,9 Z", DOWN),
    "exit": ("circle", QUIET),
    "stop": ("diamond", DOWN),
    "refused": ("path://M0,2 L2,0 L5,3 L8,0 L10,2 L7,5 L10,8 L8,10 L5,7 L2,10 L0,8 L3,5 Z", "#a05195"),
    "lesson": ("pin", "#7a6ff0"),
    "decision": ("rect", "#a05195"),
}


def candle_options(bars: Sequence[Mapping[str, Any]], marks: Sequence[Mapping[str, Any]]) -> Options:
    """Candles with what happened on them: each mark has a kind of `MARKS`, a moment, a price, words and an address."""
    starts = [parse_instant(bar["at"]) for bar in bars]
    # Categories, not times: candles of a time axis overlap where minutes are missing.
    names = [bar["at"][5:16].replace("T", " ") for bar in bars]
    series: list[Options] = [
        {
            "type": "candlestick",
            "name": "price",
            "data": [[bar["open"], bar["close"], bar["low"], bar["high"]] for bar in bars],
            "itemStyle": {"color": UP, "borderColor": UP, "color0": DOWN, "borderColor0": DOWN},
        }
    ]
    for kind, (symbol, colour) in MARKS.items():
        found = [_mark_point(each, starts, bars) for each in marks if each["kind"] == kind]
        points = [point for point in found if point is not None]
        if points:
            series.append(
                {
                    "type": "scatter",
                    "name": kind,
                    "symbol": symbol,
                    "symbolSize": 13,
                    "data": points,
                    "z": 5,
                    "itemStyle": {"color": colour, "borderColor": "#ffffff", "borderWidth": 1},
                    "tooltip": {"trigger": "item"},
                }
            )
    return _base(
        legend={
            "top": 0,
            "left": 0,
            "textStyle": _TEXT,
            "itemWidth": 12,
            "itemHeight": 10,
            "data": [each["name"] for each in series],
        },
        grid={"left": 64, "right": 16, "top": 34, "bottom": 56},
        xAxis=_axis(type="category", data=names, boundaryGap=True, splitLine={"show": False}),
        yAxis=_axis(type="value", scale=True),
        dataZoom=[
            {"type": "inside"},
            {"type": "slider", "height": 18, "bottom": 6, "borderColor": LINE, "textStyle": _TEXT},
        ],
        series=series,
    )


def _mark_point(mark: Mapping[str, Any], starts: Sequence[int], bars: Sequence[Mapping[str, Any]]) -> Options | None:
    """A mark at the bar in which it happened; None for one that lies before all bars."""
    place = bisect_right(starts, parse_instant(mark["at"])) - 1
    if place < 0 or not bars:
        return None
    # A refusal and a lesson have no price and stand above their bar.
    height = mark["price"] if mark["price"] is not None else bars[place]["high"]
    return {"value": [place, height], "name": mark["words"], "href": mark["href"]}


def calibration_options(points: Sequence[Mapping[str, Any]]) -> Options:
    """How sure an agent was against how often it was right, with the interval of each."""
    places = [(_middle_of_bucket(each["confidence"]), each) for each in points]
    won = [[place, each["win_rate"]["value"], each["n"]] for place, each in places]
    believed = [[place, each["believed"]] for place, each in places]
    bands = [
        {
            "type": "line",
            "data": [[place, each["win_rate"]["low"]], [place, each["win_rate"]["high"]]],
            "showSymbol": False,
            "lineStyle": {"color": UP, "width": 2, "opacity": 0.5},
            "tooltip": {"show": False},
        }
        for place, each in places
    ]
    return _base(
        tooltip={"trigger": "item", "confine": True, "renderMode": "richText"},
        legend={"top": 0, "left": 0, "textStyle": _TEXT, "data": ["won", "believed", "perfect calibration"]},
        grid={"left": 44, "right": 16, "top": 34, "bottom": 36},
        xAxis=_axis(
            type="value", min=0, max=1, name="confidence", nameLocation="middle", nameGap=24, nameTextStyle=_TEXT
        ),
        yAxis=_axis(type="value", min=0, max=1),
        series=[
            {
                "type": "line",
                "name": "perfect calibration",
                "data": [[0, 0], [1, 1]],
                "symbol": "none",
                "lineStyle": {"type": "dashed", "color": QUIET, "width": 1},
                "itemStyle": {"color": QUIET},
            },
            *bands,
            {"type": "scatter", "name": "won", "data": won, "symbolSize": 10, "itemStyle": {"color": UP}},
            {
                "type": "line",
                "name": "believed",
                "data": believed,
                "symbol": "diamond",
                "symbolSize": 8,
                "itemStyle": {"color": DOWN},
                "lineStyle": {"width": 1.5},
            },
        ],
    )


def _middle_of_bucket(name: str) -> float:
    """The middle of a bucket such as `0.6-0.7`, or the number itself."""
    ends = [float(part) for part in str(name).replace("–", "-").split("-") if part]
    return sum(ends) / len(ends) if ends else 0.0


def lines_options(names: Sequence[str], times: Sequence[str], values: Sequence[Sequence[float | None]]) -> Options:
    """Several lines over the same moments."""
    return arms_options({name: list(zip(times, row, strict=True)) for name, row in zip(names, values, strict=True)})


def arms_options(lines: Mapping[str, Sequence[tuple[str, float | None]]]) -> Options:
    """Several lines, each of pairs of a moment and a value."""
    # More lines than colours are told apart by their dashes.
    colours = [UP, DOWN, "#7a6ff0", "#a05195", "#2f9e8f", QUIET]
    dashes = ["solid", "dashed", "dotted"]
    return _base(
        legend={"top": 0, "left": 0, "textStyle": _TEXT, "type": "scroll", "data": list(lines)},
        grid={"left": 64, "right": 16, "top": 34, "bottom": 28},
        xAxis=_time_axis(),
        yAxis=_axis(type="value", scale=True),
        series=[
            {
                "type": "line",
                "name": name,
                "symbol": "circle",
                "showSymbol": len(row) < 12,
                "data": [[parse_instant(at), value] for at, value in row],
                "itemStyle": {"color": colours[place % len(colours)]},
                # The second of two that lie on each other must be seen.
                "lineStyle": {"width": 1.6, "type": dashes[(place + place // len(colours)) % len(dashes)]},
            }
            for place, (name, row) in enumerate(lines.items())
        ],
    )


def bars_options(names: Sequence[str], values: Sequence[float]) -> Options:
    """A bar for each period: up is blue, down is orange."""
    bars = [{"value": round(value, 2), "itemStyle": {"color": UP if value >= 0 else DOWN}} for value in values]
    return _base(
        grid={"left": 64, "right": 16, "top": 12, "bottom": 28},
        xAxis=_axis(type="category", data=list(names), splitLine={"show": False}),
        yAxis=_axis(type="value"),
        series=[{"type": "bar", "name": "result USD", "data": bars, "barMaxWidth": 48}],
    )


def neighbour_options(found: Mapping[str, Any]) -> Options:
    """What the market did after moments that were alike: a thin line for each, the mean and its interval above them."""
    spans = list(found["neighbours"][0]["moves_bps"])
    thin = [
        {
            "type": "line",
            "data": [0, *each["moves_bps"].values()],
            "showSymbol": False,
            "silent": True,
            "tooltip": {"show": False},
            "lineStyle": {"width": 1, "color": QUIET, "opacity": 0.45},
        }
        for each in found["neighbours"]
    ]
    # A span may have too few independent moves for a mean.
    moves = {each["span"]: each for each in found["moves"]}

    def line(name: str, key: str, **style: Any) -> Options:
        values = [0, *(moves[span][key] if span in moves else None for span in spans)]
        return {
            "type": "line",
            "name": name,
            "data": values,
            "symbol": "circle",
            "itemStyle": {"color": UP},
            "lineStyle": style,
            "connectNulls": True,
        }

    return _base(
        legend={"top": 0, "left": 0, "textStyle": _TEXT, "data": ["mean", "95 % low", "95 % high"]},
        grid={"left": 72, "right": 16, "top": 34, "bottom": 28},
        xAxis=_axis(type="category", data=["then", *(f"{span} later" for span in spans)], boundaryGap=False),
        yAxis=_axis(type="value", axisLabel={**_TEXT, "formatter": "{value} bps"}),
        series=[
            *thin,
            line("mean", "mean_bps", width=3),
            line("95 % low", "low_bps", width=1.5, type="dashed"),
            line("95 % high", "high_bps", width=1.5, type="dashed"),
        ],
    )
