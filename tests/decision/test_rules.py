"""Each rule at its bounds: the last value it lets pass, and the first it refuses."""

import re
from pathlib import Path
from typing import Any

import pytest

from tapebook.decision import guard
from tapebook.decision.guard import RULES, judge_actions
from tapebook.domain.run import Action, Activity, Verdict
from tapebook.domain.units import E8
from tests.decision.accounts import CAPS, action, limited, limits, usd, working

OPEN = action("open", "long", 100)
ADJUST = action("adjust", "long", 100)
CLOSE = action("close")
HOLD = action("hold")
UNIT = 1e-6
HOUR = 3_600_000


def verdict(proposed: Action, **known: Any) -> Verdict:
    """What the guard says of one action."""
    (found,) = judge_actions([proposed], limits(**known))
    return found


def lost(dollars: float) -> Activity:
    """A day that began so much above the 10,000 of the account."""
    return Activity(day_start_equity_usd_e6=usd(10_000 + dollars))


@pytest.mark.parametrize(
    ("proposed", "known", "rule"),
    [
        pytest.param(HOLD, {}, None, id="a hold"),
        pytest.param(OPEN, {}, None, id="an open"),
        # R1
        pytest.param(OPEN, {"halted": "x"}, "R1_KILL_SWITCH", id="an open while halted"),
        pytest.param(CLOSE, {"halted": "x", "held": 100}, "R1_KILL_SWITCH", id="a close while halted"),
        pytest.param(HOLD, {"halted": "x"}, None, id="a hold while halted"),
        # R2
        pytest.param(action("hold", symbol="ETH"), {}, "R2_SYMBOL_NOT_ENABLED", id="a hold on another symbol"),
        pytest.param(action("open", "long", 100, symbol="ETH"), {}, "R2_SYMBOL_NOT_ENABLED", id="another symbol"),
        pytest.param(action("close", symbol=""), {}, "R2_SYMBOL_NOT_ENABLED", id="no symbol"),
        pytest.param(action("open", "long", 100, symbol="btc"), {}, "R2_SYMBOL_NOT_ENABLED", id="lower case"),
        pytest.param(OPEN, {"watchlist": ("ETH",)}, "R2_SYMBOL_NOT_ENABLED", id="not on the watchlist"),
        pytest.param(OPEN, {"watchlist": ()}, "R2_SYMBOL_NOT_ENABLED", id="an empty watchlist"),
        # R15
        pytest.param(action("hold", cites=("c1",)), {"citations": frozenset({"c1"})}, None, id="a known citation"),
        pytest.param(action("hold", cites=("c2",)), {"citations": frozenset({"c1"})}, "R15_UNKNOWN_CITATION", id="c2"),
        pytest.param(action("open", "long", 100, cites=("c1",)), {}, "R15_UNKNOWN_CITATION", id="none to cite"),
        pytest.param(action("hold", cites=("",)), {}, "R15_UNKNOWN_CITATION", id="an empty citation"),
        # R7
        pytest.param(OPEN, {"data_age_ms": None}, "R7_STALE_DATA", id="no age"),
        pytest.param(OPEN, {"marks": {}}, "R7_STALE_DATA", id="no price"),
        pytest.param(OPEN, {"data_age_ms": 0}, None, id="a price of this moment"),
        pytest.param(OPEN, {"data_age_ms": 120_000}, None, id="a price as old as allowed"),
        pytest.param(OPEN, {"data_age_ms": 120_001}, "R7_STALE_DATA", id="a price a millisecond older"),
        pytest.param(CLOSE, {"data_age_ms": 120_001, "held": 1}, "R7_STALE_DATA", id="a close on an old price"),
        pytest.param(HOLD, {"data_age_ms": None}, None, id="a hold needs no price"),
        # R12
        pytest.param(CLOSE, {}, "R12_NO_POSITION", id="nothing to close"),
        pytest.param(CLOSE, {"held": UNIT}, None, id="the smallest long is closed"),
        pytest.param(CLOSE, {"held": -UNIT}, None, id="the smallest short is closed"),
        pytest.param(ADJUST, {}, "R12_NO_POSITION", id="nothing to adjust"),
        pytest.param(ADJUST, {"held": 50}, None, id="a long is adjusted"),
        pytest.param(ADJUST, {"held": -50}, "R12_NO_POSITION", id="a short is not a long"),
        pytest.param(action("adjust", "short", 100), {"held": -50}, None, id="a short is adjusted"),
        pytest.param(action("adjust", "short", 100), {"held": 50}, "R12_NO_POSITION", id="a long is not a short"),
        # R4
        pytest.param(action("open", "long", 100, leverage=5), {}, None, id="the highest leverage"),
        pytest.param(action("open", "long", 100, leverage=6), {}, "R4_LEVERAGE", id="one more"),
        pytest.param(action("adjust", "long", 100, leverage=6), {"held": 1}, "R4_LEVERAGE", id="adjust, too"),
        pytest.param(action("close", leverage=100), {"held": 1}, None, id="the leverage of a close is idle"),
        # R8
        pytest.param(action("open", "long", 10), {}, None, id="the smallest open"),
        pytest.param(action("open", "long", 10 - UNIT), {}, "R8_MIN_NOTIONAL", id="a unit smaller"),
        pytest.param(action("adjust", "long", 109), {"held": 100}, "R8_MIN_NOTIONAL", id="an adjust by too little"),
        pytest.param(action("adjust", "long", 110), {"held": 100}, None, id="an adjust by just enough"),
        pytest.param(action("adjust", "long", 91), {"held": 100}, "R8_MIN_NOTIONAL", id="a cut by too little"),
        pytest.param(action("adjust", "long", 1), {"held": 100}, None, id="a cut down to less"),
        pytest.param(ADJUST, {"held": 100}, "R8_MIN_NOTIONAL", id="an adjust to what is held"),
        pytest.param(action("open", "short", 5), {"held": 5}, None, id="a turn of both parts"),
        pytest.param(limited("open", "long", 10, at=99), {}, "R8_MIN_NOTIONAL", id="too small at its own price"),
        # R9
        pytest.param(limited("open", "long", 100, at=98), {}, None, id="a bid as low as allowed"),
        pytest.param(limited("open", "long", 100, at=97.999999), {}, "R9_PRICE_DEVIATION", id="a bid below"),
        pytest.param(limited("open", "long", 100, at=102), {}, None, id="a bid above the market"),
        pytest.param(limited("open", "long", 100, at=102.000001), {}, "R9_PRICE_DEVIATION", id="a bid far above"),
        pytest.param(limited("open", "short", 100, at=102.01), {}, "R9_PRICE_DEVIATION", id="an offer too high"),
        pytest.param(limited("close", None, 0, at=50), {"held": 100}, "R9_PRICE_DEVIATION", id="a close for half"),
        # R3
        pytest.param(action("open", "long", 2_000), {}, None, id="the largest long"),
        pytest.param(action("open", "short", 2_000), {}, None, id="the largest short"),
        pytest.param(action("open", "long", 2_000 + UNIT), {}, "R3_POSITION_CAP", id="a unit larger"),
        pytest.param(action("open", "short", 2_000 + UNIT), {}, "R3_POSITION_CAP", id="a unit larger, short"),
        pytest.param(action("open", "long", 500), {"held": 1_500}, None, id="an add up to the cap"),
        pytest.param(action("open", "long", 501), {"held": 1_500}, "R3_POSITION_CAP", id="an add beyond"),
        pytest.param(action("open", "short", 501), {"held": -1_500}, "R3_POSITION_CAP", id="an add beyond, short"),
        pytest.param(action("open", "short", 2_000), {"held": 2_000}, None, id="turned, up to the cap"),
        pytest.param(action("open", "short", 2_001), {"held": 500}, "R3_POSITION_CAP", id="turned, beyond"),
        pytest.param(action("adjust", "long", 2_000), {"held": 1_900}, None, id="adjusted to the cap"),
        pytest.param(action("adjust", "long", 2_001), {"held": 1}, "R3_POSITION_CAP", id="adjusted beyond"),
        pytest.param(OPEN, {"held": 3_000}, "R3_POSITION_CAP", id="an add to what grew beyond the cap"),
        pytest.param(action("adjust", "long", 1_000), {"held": 3_000}, None, id="cut back below the cap"),
        pytest.param(action("adjust", "long", 2_500), {"held": 3_000}, None, id="cut back, still above it"),
        pytest.param(
            action("open", "long", 501), {"working": (working("BTC", 1_500),)}, "R3_POSITION_CAP", id="with an order"
        ),
        pytest.param(action("open", "long", 500), {"working": (working("BTC", 1_500),)}, None, id="an order, fits"),
        pytest.param(
            action("open", "long", 2_000), {"working": (working("BTC", -1_500),)}, None, id="an order of the other side"
        ),
        pytest.param(
            action("open", "long", 2_000),
            {"working": (working("BTC", 1_500, reduces=True),)},
            None,
            id="an order that only reduces",
        ),
        pytest.param(
            limited("open", "short", 2_000, at=101), {}, "R3_POSITION_CAP", id="an offer above is worth more then"
        ),
        pytest.param(limited("open", "long", 2_000, at=99), {}, None, id="a bid below is worth no more"),
        pytest.param(
            limited("open", "short", 1_500, at=100),
            {"held": 1_000},
            "R3_POSITION_CAP",
            id="a limit order may turn what was closed before",
        ),
        pytest.param(
            action("open", "short", 600),
            {"held": 1_000, "working": (working("BTC", -1_000, reduces=True),)},
            None,
            id="a turn beside a close, within the cap even then",
        ),
        pytest.param(
            action("open", "short", 1_100),
            {"held": 1_000, "working": (working("BTC", -1_000, reduces=True),)},
            "R3_POSITION_CAP",
            id="a turn beside a close, beyond it then",
        ),
        # R14
        pytest.param(action("open", "long", 1_000), {"others": {"ETH": 2_000}}, None, id="the largest account"),
        pytest.param(
            action("open", "long", 1_000 + UNIT), {"others": {"ETH": 2_000}}, "R14_ACCOUNT_CAP", id="a unit beyond"
        ),
        pytest.param(
            action("open", "short", 1_001), {"others": {"ETH": 2_000}}, "R14_ACCOUNT_CAP", id="a short is no hedge"
        ),
        pytest.param(
            action("open", "long", 1_001),
            {"others": {"ETH": 1_000}, "working": (working("SOL", -1_000),)},
            "R14_ACCOUNT_CAP",
            id="with an order elsewhere",
        ),
        pytest.param(CLOSE, {"held": 2_000, "others": {"ETH": 2_000}}, None, id="a close in too large an account"),
        # R16
        pytest.param(action("open", "long", 500), {"cash": 500}, None, id="all the margin there is"),
        pytest.param(action("open", "long", 500 + UNIT), {"cash": 500}, "R16_MARGIN", id="a unit more"),
        pytest.param(action("open", "long", 1_500, leverage=3), {"cash": 500}, None, id="the same, levered"),
        pytest.param(action("open", "long", 1_501, leverage=3), {"cash": 500}, "R16_MARGIN", id="levered, too much"),
        pytest.param(
            action("open", "long", 400, leverage=4),
            {"cash": 500, "others": {"ETH": 401}},
            "R16_MARGIN",
            id="other positions need theirs",
        ),
        pytest.param(
            action("open", "long", 400, leverage=4),
            {"cash": 500, "working": (working("ETH", 802, leverage=2),)},
            "R16_MARGIN",
            id="working orders need theirs",
        ),
        pytest.param(CLOSE, {"held": 100, "cash": -1}, None, id="a close without any margin"),
        # R5
        pytest.param(OPEN, {"activity": lost(1_000)}, None, id="a loss as large as allowed"),
        pytest.param(OPEN, {"activity": lost(1_000 + UNIT)}, "R5_DAILY_LOSS", id="a unit more lost"),
        pytest.param(CLOSE, {"held": 100, "activity": lost(5_000)}, None, id="a close after the loss"),
        pytest.param(
            action("adjust", "long", 50), {"held": 100, "activity": lost(5_000)}, None, id="a cut after the loss"
        ),
        pytest.param(
            action("open", "short", 50), {"held": 100, "activity": lost(5_000)}, "R5_DAILY_LOSS", id="a turn after it"
        ),
        # R6
        pytest.param(OPEN, {"activity": Activity(orders_last_hour=59)}, None, id="the last order of the hour"),
        pytest.param(OPEN, {"activity": Activity(orders_last_hour=60)}, "R6_RATE_LIMIT", id="one more"),
        pytest.param(CLOSE, {"held": 100, "activity": Activity(orders_last_hour=60)}, None, id="a close is let out"),
        # R13
        pytest.param(
            CLOSE, {"held": 100, "working": (working("BTC", -200),)}, "R13_ONE_ORDER", id="a close beside a turn"
        ),
        pytest.param(CLOSE, {"held": 100, "working": (working("BTC", -200, limit=101),)}, None, id="beside an offer"),
        pytest.param(CLOSE, {"held": 100, "working": (working("BTC", 200),)}, None, id="a close beside an add"),
        pytest.param(CLOSE, {"held": 100, "working": (working("ETH", -200),)}, None, id="a turn of another symbol"),
    ],
)
def test_rule(proposed: Action, known: dict[str, Any], rule: str | None) -> None:
    found = verdict(proposed, **known)
    assert (found.allowed, found.rule) == (rule is None, rule)
    assert bool(found.detail) == (rule is not None)


@pytest.mark.parametrize(("since", "rule"), [(HOUR, None), (HOUR - 1, "R10_COOLDOWN"), (0, "R10_COOLDOWN")])
def test_symbol_rests_after_a_loss(since: int, rule: str | None) -> None:
    rested = CAPS.__class__(cooldown_ms=HOUR)
    at = 10 * HOUR
    known: dict[str, Any] = {"caps": rested, "at": at, "activity": Activity(last_loss_at={"BTC": at - since})}
    assert verdict(OPEN, **known).rule == rule
    assert verdict(CLOSE, held=100, **known).allowed
    assert verdict(OPEN, **known | {"caps": CAPS}).allowed
    assert verdict(OPEN, **known | {"activity": Activity(last_loss_at={"ETH": at})}).allowed


@pytest.mark.parametrize(
    ("proposed", "known", "detail"),
    [
        (OPEN, {"halted": "the desk is halted: storm"}, "the desk is halted: storm"),
        (action("open", "long", 100, symbol="ETH"), {}, "ETH is not what this run may trade"),
        (action("open", "long", 100, symbol=""), {}, "an empty symbol is not what this run may trade"),
        (action("hold", cites=("c9",)), {}, "c9 is not in the packet"),
        (OPEN, {"data_age_ms": None}, "no price is known"),
        (OPEN, {"data_age_ms": 300_999}, "the newest price is 300 s old"),
        (action("open", "long", 100, leverage=6), {}, "leverage 6 exceeds 5"),
        (action("open", "long", 9.99), {}, "an order of $9.99 is below the minimum of $10.00"),
        (limited("open", "long", 100, at=95), {}, "the limit is 5.00 % from the market"),
        (action("open", "long", 600), {"held": 1_500}, "position of $2100.00 exceeds $2000.00"),
        (action("open", "long", 600), {"others": {"ETH": 2_500}}, "$3100.00 in all symbols exceeds $3000.00"),
        (action("open", "long", 600), {"cash": 500}, "margin of $600.00 is needed and the account is worth $500.00"),
        (OPEN, {"activity": lost(1_200)}, "$1200.00 lost today exceeds $1000.00"),
        (OPEN, {"activity": Activity(orders_last_hour=61)}, "61 orders within the hour; 60 are allowed"),
        (
            CLOSE,
            {"held": 100, "settled_at_e8": 95 * E8},
            "BTC is not listed any more; positions in it were settled at 95.000",
        ),
        (CLOSE, {}, "there is no position to close"),
        (ADJUST, {}, "there is no long position to adjust"),
    ],
)
def test_refusal_says_why(proposed: Action, known: dict[str, Any], detail: str) -> None:
    assert verdict(proposed, **known).detail == detail


def codes(text: str) -> set[str]:
    return set(re.findall(r"R\d+_[A-Z_]+", text))


def test_every_code_is_described_in_the_module_and_on_its_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "rules.md").read_text("utf-8")
    rows = re.findall(r"^\| `(R\d+_[A-Z_]+)` \|", page, re.MULTILINE)
    assert len(rows) == len(set(rows)) == 18
    assert set(rows) == codes(guard.__doc__ or "")
    assert set(RULES) | {"R11_MODEL_SPEND", "R17_EXPIRED"} == set(rows)
