"""A bot with a memory in thirty lines: it keeps its loop, its rule or model, and its exchange.

python examples/loop.py HOME
"""

import sys

from market import minutes

import tapebook


def decide(text: str, bar: dict[str, float]) -> str:
    """A model would read the text; this rule buys what rises and sells what falls."""
    rises, holds = bar["close"] > bar["open"], "position_side: long" in text
    return "open" if rises and not holds else "close" if holds and not rises else "hold"


def run(home: str, *, count: int = 240) -> tapebook.ReplayReport:
    tapebook.init(home)
    clock = tapebook.VirtualClock(0)  # a live bot leaves the clock out
    with tapebook.open(home, clock=clock) as tb:
        tb.add_agent("loop", {"watch": "BTC", "broker": "external"})
        for number, bar in enumerate(minutes(clock, count)):
            tb.observe("BTC", candles=[bar], prices=bar["close"])
            if number < 60 or number % 10:
                continue
            with tb.decision("loop", "BTC") as decision:
                action = decide(decision.text, bar)
                terms = {"side": "long", "notional_usd": 200.0} if action == "open" else {}
                made = decision.record(action, reason="one bar", confidence=0.6, provider="one-bar", **terms)
            if made["status"] == "placed":  # here the bot trades; what the exchange says is told
                side, own = ("buy" if action == "open" else "sell"), f"fill {number}"
                tb.record_fill("loop", "BTC", id=own, side=side, size=0.003, price=bar["close"], last=True)
        tb.learn("loop")
        print(f"{len(tb.trades('loop', status='closed'))} trades, {tb.experience.show('loop')['outcomes']} learned")
        return tb.replay()


if __name__ == "__main__":
    report = run(sys.argv[1])
    print(f"replay: {report.equal} of {report.checked} packets equal byte for byte")
