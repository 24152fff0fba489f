"""Recent activity (this session): what was refused lately, by whomever, and what the day has come to.

Lines about nothing are left out, and the whole section when all is quiet. When the last three
refusals have the same code it says so, for a model that sees only its last one tends to propose the
same again; two can be chance. What grows without bound (how many rules, how long their names) is
shortened until the section fits.
"""

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

from tapebook.context.budget import text_tokens
from tapebook.context.sections import FACTS, Layout, Rows, fact_text
from tapebook.context.sections.figures import percent
from tapebook.context.situation import Situation
from tapebook.domain.activity import LONGEST_STREAK, Activity

CAP = 130
TITLE = "Recent activity (this session)"
NUDGE = "← same code in the last 3+ rejections; do not repeat the same proposal shape"
DOUBT = "(consider whether your read of the regime still holds)"
# How many codes of the sequence and how many rules are shown; the first shape that fits is taken.
_SHAPES = ((4, 99), (3, 3), (3, 2), (3, 1), (1, 1))


def rows(activity: Activity | None) -> Rows:
    """Names and values of what is not zero."""
    if activity is None:
        return ()
    for tail, rules in _SHAPES:
        found = _rows(activity, tail=tail, rules=rules)
        if text_tokens(f"## {TITLE}\n{fact_text(found)}") <= CAP:
            break
    return found


def _rows(activity: Activity, *, tail: int, rules: int) -> Rows:
    rows = []
    if activity.refusals:
        rows.append(("engine rejections (last 1h)", _counts(activity.refusals, rules)))
        rows.append(("recent rejection sequence", _sequence(activity.refusals, tail)))
    if activity.executed_today:
        rows.append(("executed orders today (UTC)", str(activity.executed_today)))
    start = activity.day_start_equity_usd_e6
    share = percent(activity.realised_today_usd_e6, start, digits=2) if start > 0 else ""
    # What rounds to nothing says nothing, least of all with a sign.
    if share.strip("+-0.%"):
        rows.append(("realized PnL today (UTC, vs day-start equity)", share))
    if activity.losing_streak:
        more = "+" if activity.losing_streak >= LONGEST_STREAK else ""
        rows.append(("consecutive losing closes", f"{activity.losing_streak}{more} {DOUBT}"))
    return tuple(rows)


def _counts(codes: Sequence[str], rules: int) -> str:
    """`R3_POSITION_CAP=4, R6_RATE_LIMIT=1`: the most frequent first."""
    counted = sorted(Counter(codes).items(), key=lambda pair: (-pair[1], pair[0]))
    told = [f"{code}={count}" for code, count in counted[:rules]]
    more = len(counted) - len(told)
    return ", ".join([*told, f"{more} more rules"] if more else told)


def _sequence(codes: Sequence[str], tail: int) -> str:
    """The last codes, oldest first, with the nudge when three are the same."""
    shown = " → ".join(codes[-tail:])
    return f"{shown} {NUDGE}" if len(codes) >= 3 and len(set(codes[-3:])) == 1 else shown


LAYOUT: Layout[Situation, Activity | None] = Layout(
    name="recent_activity",
    cap=CAP,
    title=TITLE,
    columns=FACTS,
    look=attrgetter("activity"),
    rows=rows,
    text=fact_text,
    memory=True,
    shares=True,
)
