"""A bot with a memory in thirty lines: it keeps its loop, its rule or model, and its exchange.

    python examples/loop.py HOME

Killed anywhere and started again, it goes on with the turn it was in, and nothing is recorded twice.
"""

import sys

from market import MINUTE, START, minutes, open_home

import tapebook


def decide(text: str, bar: dict[str, float]) -> str:
    """A model would read the text; this rule buys what rises and sells what falls."""
    rises, holds = bar["close"] > bar["open"], "position_side: long" in text
    return "open" if rises and not holds else "close" if holds and not rises else "hold"


def run(home: str, *, count: int = 240) -> tapebook.ReplayReport:
    clock = tapebook.VirtualClock(START)  # a live bot leaves the clock out
    with open_home(home, "loop", clock=clock) as tb:
        for number, bar in minutes(clock, count, since=tb.now()):
            tb.observe("BTC", candles=[bar], prices=bar["close"])
            if number < 60 or number % 10:
                continue
            with tb.decision("loop", "BTC", at=START + (number + 1) * MINUTE) as decision:
                made = decision.run  # there already, if this turn was cut before
                if made is None:
                    action = decide(decision.text, bar)
                    terms = {"side": "long", "notional_usd": 200.0} if action == "open" else {}
                    made = decision.record(action, reason="one bar", confidence=0.6, provider="one-bar", **terms)
            if made["status"] == "placed":  # here the bot trades; what the exchange says is told
                side, own = ("buy" if made["actions"][0]["action"] == "open" else "sell"), f"fill {number}"
                tb.record_fill("loop", "BTC", id=own, side=side, size=0.003, price=bar["close"], last=True)
        tb.learn("loop")
        print(f"{len(tb.trades('loop', status='closed'))} trades, {tb.experience.show('loop')['outcomes']} learned")
        return tb.replay()


if __name__ == "__main__":
    report = run(sys.argv[1])
    print(f"replay: {report.equal} of {report.checked} packets equal byte for byte")
