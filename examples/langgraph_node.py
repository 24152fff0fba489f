"""A LangGraph agent whose memory is two nodes: one reads what is known, one records what was decided.

    pip install langgraph
    python examples/langgraph_node.py HOME

The state holds a ticket, which is text: a graph may be checkpointed, stopped and resumed between the nodes, on another
machine too, and the decision is still recorded with the packet it was made from.
"""

import sys
from typing import TypedDict

from langgraph.graph import END, StateGraph
from langgraph.graph import START as BEGIN
from market import MINUTE, START, minutes, open_home

import tapebook


class TradingState(TypedDict, total=False):
    """What goes from node to node."""

    moment: int
    price: float
    packet: str
    ticket: str
    action: str
    reason: str
    run_id: str


def build_graph(tb: tapebook.Tapebook, agent: str, symbol: str):
    """The graph: recall, decide, record."""

    def recall(state: TradingState) -> TradingState:
        tb.observe(symbol, prices=state["price"])
        tb.learn(agent)
        offer = tb.offer_decision(agent, symbol, at=state["moment"])
        return {"packet": offer.text, "ticket": offer.ticket}

    def decide(state: TradingState) -> TradingState:
        """A chat model would be asked here with the packet in its prompt."""
        holds = "position_side: long" in state["packet"]
        return {"action": "close" if holds else "open", "reason": "in and out by turns"}

    def record(state: TradingState) -> TradingState:
        terms = {"side": "long", "notional_usd": 150.0} if state["action"] == "open" else {}
        run = tb.record_decision(
            state["ticket"], state["action"], reason=state["reason"], confidence=0.55, provider="graph", **terms
        )
        if run["status"] == "placed":
            # The run is that of the moment: one that was recorded before a crash is given again.
            side = "buy" if run["actions"][0]["action"] == "open" else "sell"
            told = {"id": run["run_id"], "side": side, "size": 0.002, "price": state["price"]}
            tb.record_fill(agent, symbol, run=run["run_id"], last=True, **told)
        return {"run_id": run["run_id"]}

    graph = StateGraph(TradingState)
    for node in (recall, decide, record):
        graph.add_node(node.__name__, node)
    for before, after in ((BEGIN, "recall"), ("recall", "decide"), ("decide", "record"), ("record", END)):
        graph.add_edge(before, after)
    return graph.compile()


def run(home: str, *, count: int = 160) -> tapebook.ReplayReport:
    clock = tapebook.VirtualClock(START)
    with open_home(home, "graph", clock=clock) as tb:
        graph = build_graph(tb, "graph", "BTC")
        for number, bar in minutes(clock, count, since=tb.now()):
            tb.observe("BTC", candles=[bar])
            if number >= 60 and number % 10 == 0:
                graph.invoke({"moment": START + (number + 1) * MINUTE, "price": bar["close"]})
        tb.learn("graph")
        print(f"{len(tb.trades('graph', status='closed'))} trades")
        return tb.replay()


if __name__ == "__main__":
    report = run(sys.argv[1])
    print(f"replay: {report.equal} of {report.checked} packets equal byte for byte")
