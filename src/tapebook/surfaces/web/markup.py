"""Markup and the texts of values: every text is escaped unless it was made here.

    tag("td", trade["exit_reason"], cls="long")

`Markup` is what `tag` gives; a plain string inside it is text, whatever it holds. Numbers have fixed digits, results a
sign and an arrow besides their colour, moments are UTC.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple
from urllib.parse import quote

from tapebook.domain.text import sanitise
from tapebook.domain.units import E8, short_price, to_units

NOTHING = "–"
# Columns that fit beside each other there.
_MOST_ON_A_PHONE = 4
# A capital that begins a word of a name, and a figure that follows letters; `24h` stays together.
_WORD_START = re.compile(r"(?<=[a-z0-9])[A-Z]|(?<=[a-z])[0-9]")
_UNITS = ((1e12, " T"), (1e9, " B"), (1e6, " M"))
# Elements that have no end tag.
_VOID = frozenset(("br", "hr", "input"))


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | None | Iterable["Child"]


def tag(name: str, *children: Child, **attributes: str | bool | None) -> Markup:
    """An element; `cls` is its class, and an underscore in a name is a hyphen."""
    written = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{together(*children)}</{name}>")


def together(*children: Child) -> Markup:
    """Several pieces as one; what is no markup is escaped."""
    return Markup("".join(_piece(child) for child in children))


def _piece(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return escape(_visible(child))
    return "".join(map(_piece, child))


def _visible(text: str) -> str:
    """A text line by line without characters that nobody sees, such as those that turn the direction of writing."""
    return "\n".join(map(sanitise, text.split("\n")))


def code_text(text: str) -> Markup:
    """A text of the program for people: what stands between backticks is code; markup stays as it is."""
    pieces = [] if isinstance(text, Markup) else text.split("`")
    # An odd one stands for itself.
    if len(pieces) % 2 == 0:
        return together(text)
    return together([tag("code", piece) if at % 2 else piece for at, piece in enumerate(pieces)])


def _attribute(key: str, value: str | bool | None) -> str:
    name = {"cls": "class"}.get(key, key.rstrip("_").replace("_", "-"))
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def link(text: Child, *path: str, query: str = "", **attributes: str) -> Markup:
    """A link to a page here, by the parts of its path."""
    return tag("a", text, href=page_path(*path) + (f"?{query}" if query else ""), **attributes)


def page_path(*parts: str) -> str:
    """The address of a page here; no part can lead out of it."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def usd(value: float | None, digits: int = 2) -> str:
    """An amount of dollars."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def signed_usd(value: float | None, digits: int = 2) -> Markup:
    """A result: its sign, an arrow and a colour say the same."""
    return _signed_text(value, None if value is None else f"{value:+,.{digits}f}", digits)


def signed_share(value: float | None, digits: int = 2) -> Markup:
    """A change as a share, in percent."""
    return _signed_text(value, None if value is None else f"{value:+.{digits}%}", digits + 2)


def signed_bps(value: float | None) -> Markup:
    """A change in basis points."""
    return _signed_text(value, None if value is None else f"{value:+,.1f}", 1)


def _signed_text(value: float | None, text: str | None, digits: int) -> Markup:
    if value is None or text is None:
        return tag("span", NOTHING, cls="tb-flat")
    if not round(value, digits):
        return tag("span", text.lstrip("+-"), cls="tb-flat")
    tone, arrow = ("tb-up", "▲") if value > 0 else ("tb-down", "▼")
    return tag("span", tag("span", arrow, cls="tb-sign", aria_hidden="true"), text, cls=tone)


def share(value: float | None, digits: int = 1) -> str:
    """A share in percent."""
    return NOTHING if value is None else f"{value:.{digits}%}"


def number(value: float | None, digits: int = 0) -> str:
    """A number with separated thousands."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def compact(value: float) -> str:
    """A large number in short, such as `262.4 B`."""
    unit, name = next((each for each in _UNITS if abs(value) >= each[0]), (1.0, ""))
    return f"{value / unit:,.4g}{name}"


def price(value: float | None) -> str:
    """A price as the exchange quotes it, with separated thousands."""
    if value is None:
        return NOTHING
    whole, point, rest = short_price(to_units(value, E8)).partition(".")
    return f"{int(whole):,}{point}{rest}"


def size(value: float | None) -> str:
    """How much is held or ordered, to six figures."""
    return NOTHING if value is None else f"{value:,.0f}" if abs(value) >= 1e6 else f"{value:,.6g}"


def label(name: str) -> str:
    """A name of the façade as people read it: `spreadBps` and `spread_bps` are "spread bps"."""
    return _WORD_START.sub(lambda found: f" {found[0].lower()}", name).replace("_", " ").strip()


def moment(value: str | None, *, seconds: bool = False) -> Markup:
    """A moment of the façade in UTC, with all of it on hover."""
    if value is None:
        return Markup(NOTHING)
    return tag("time", value[: 19 if seconds else 16].replace("T", " "), datetime=value, title=f"{value} UTC")


def span_text(equity: Mapping[str, Any]) -> str:
    """The time a line of equity covers."""
    # A home that is younger than the period begins with its first posting.
    first = equity["points"][0]["at"] if equity["points"] else equity["since"]
    return f"{first[:16].replace('T', ' ')} to {equity['until'][:16].replace('T', ' ')} UTC"


def badge(text: str, tone: str = "") -> Markup:
    """A word in a frame."""
    return tag("span", text, cls=f"tb-badge {tone}".strip())


def side_badge(side: str | None) -> Markup:
    """Long or short, with an arrow."""
    return badge({"long": "▲ long", "short": "▼ short"}.get(side or "", side or NOTHING))


class Cells(NamedTuple):
    """A column: its heading, the class of its cells (`num`, `tb-fit`, `long` or none)."""

    heading: str
    cls: str = ""


def table(columns: Sequence[Cells], rows: Iterable[Sequence[Child]], *, label: str) -> Markup:
    """Rows under headings; on a phone a row of many cells becomes a card that names each of them."""
    head = tag("tr", [tag("th", each.heading, cls=each.cls or None, scope="col") for each in columns])
    # A row with a long text has lines of its own there.
    are_cards = len(columns) > _MOST_ON_A_PHONE and not any("long" in each.cls for each in columns)
    names = [f"{each.heading[:1].upper()}{each.heading[1:]}" if are_cards else None for each in columns]
    body = [
        tag(
            "tr",
            [
                tag("td", cell, cls=each.cls or None, data_name=name)
                for each, name, cell in zip(columns, names, row, strict=True)
            ],
        )
        for row in rows
    ]
    cls = "tb-table tb-cards" if are_cards else "tb-table"
    return tag("table", tag("thead", head), tag("tbody", body), cls=cls, aria_label=label)


def sheet(title: str, *body: Child, note: Child = None, flush: bool = False) -> Markup:
    """A titled part of a page."""
    aside = tag("span", note, cls="tb-note") if note else None
    inner = tag("div", *body, cls="tb-body tb-flush" if flush else "tb-body", tabindex="0" if flush else None)
    return tag("section", tag("header", tag("h2", title), aside), inner, cls="tb-sheet", aria_label=title)


def figures(cards: Iterable[tuple[str, Child, Child]]) -> Markup:
    """The numbers on top of a page: what, how much, and what stands behind it."""
    shown = [
        tag("div", tag("span", name), tag("b", value), tag("small", note) if note else None, cls="tb-figure")
        for name, value, note in cards
    ]
    # Their number decides the columns: a row that is not full looks like something is missing.
    return tag("div", shown, cls="tb-figures", style=f"--n:{len(shown)};--half:{-(-len(shown) // 2)}")


def empty(title: str, advice: Child, *commands: str) -> Markup:
    """Says that there is nothing yet, and what to do about it."""
    asked = [tag("div", tag("code", command)) for command in commands]
    return tag("div", tag("b", title), tag("p", advice), asked, cls="tb-empty")


def alert(title: str, lines: Iterable[Child], tone: str = "") -> Markup:
    """Something that somebody should see first."""
    listed = [tag("li", code_text(line) if isinstance(line, str) else line) for line in lines]
    body = tag("ul", listed) if listed else None
    return tag("div", tag("b", title), body, cls=f"tb-alert {tone}".strip(), role="status")


def length_text(minutes: int) -> str:
    """The length of a bar."""
    return f"{minutes // 60} h" if minutes % 60 == 0 else f"{minutes} min"


def key_values(
    pairs: Mapping[str, Child], *, spread: bool = False, numbers: bool = False, verbatim: bool = False
) -> Markup:
    """Names and values in two columns; many are spread over the width, and numbers end at one edge.

    Names that are keys of a file are `verbatim`: written as somebody has to type them.
    """
    rows = [together(tag("dt", name), tag("dd", value)) for name, value in pairs.items()]
    if spread:
        return tag("dl", [tag("div", row) for row in rows], cls="tb-key tb-spread")
    return tag("dl", rows, cls="tb-key" + (" tb-numbers" if numbers else "") + (" tb-verbatim" if verbatim else ""))


def text_block(text: str, *, wrap: bool = True, tall: bool = False) -> Markup:
    """A text as it is, in figures of one width."""
    cls = "tb-text" + ("" if wrap else " tb-nowrap") + (" tb-long" if tall else "")
    return tag("pre", text, cls=cls, tabindex="0")


def bar(value: float, of: float | None) -> Markup:
    """How much of something is used."""
    used = min(1.0, value / of) if of else 0.0
    over = bool(of) and value > (of or 0)
    return tag("span", tag("i", cls="over" if over else None, style=f"width:{used:.1%}"), cls="tb-bar")


def sparkline(values: Sequence[float], *, name: str) -> Markup:
    """A small line of values, with words for those who do not see it."""
    if len(values) < 2:
        return Markup(NOTHING)
    low, span = min(values), (max(values) - min(values)) or 1.0
    step = 100 / (len(values) - 1)
    points = " ".join(f"{place * step:.1f},{22 - 20 * (each - low) / span:.1f}" for place, each in enumerate(values))
    # A stroke that keeps its width, for the drawing is stretched to its cell.
    style = 'fill="none" stroke="currentColor" stroke-width="1.5" vector-effect="non-scaling-stroke"'
    line = f'<polyline points="{points}" {style}/>'
    tone = "tb-up" if values[-1] > values[0] else "tb-down" if values[-1] < values[0] else "tb-flat"
    said = f"{name}: from {values[0]:,.6g} to {values[-1]:,.6g}"
    return tag(
        "span",
        Markup(f'<svg viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">{line}</svg>'),
        cls=f"tb-spark {tone}",
        role="img",
        aria_label=said,
        title=said,
    )


def interval(low: float, value: float, high: float, *, span: tuple[float, float]) -> Markup:
    """A value with its interval on a scale; the thin line is zero, or a half of a share."""
    first, last = span
    width = (last - first) or 1.0

    def place(number: float) -> float:
        return min(100.0, max(0.0, 100 * (number - first) / width))

    # Half of all is what chance wins, and nothing is what it makes.
    middle = 0.5 if span == (0.0, 1.0) else 0.0
    return tag(
        "span",
        tag("u", style=f"left:{place(middle):.1f}%"),
        tag("i", style=f"left:{place(low):.1f}%;width:{max(0.5, place(high) - place(low)):.1f}%"),
        tag("b", style=f"left:{place(value):.1f}%"),
        cls="tb-span",
        role="img",
        aria_label=f"{value:g}, from {low:g} to {high:g}",
    )


def picks(label: str, choices: Iterable[tuple[str, str, bool]]) -> Markup:
    """Links of which one is chosen: text, address, whether it is this one."""
    return tag(
        "nav",
        [tag("a", text, href=address, aria_current="true" if chosen else None) for text, address, chosen in choices],
        cls="tb-pick",
        aria_label=label,
    )


def plain_value(value: Any) -> str:
    """Any value of the façade as one line."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {plain_value(each)}" for key, each in value.items()) or NOTHING
    if isinstance(value, list | tuple):
        return ", ".join(map(plain_value, value)) or NOTHING
    return str(value)
