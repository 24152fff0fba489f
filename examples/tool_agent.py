"""An agent of tools on any server that speaks the OpenAI chat format: llama.cpp, vLLM, Ollama, LM Studio.

    python examples/tool_agent.py HOME http://127.0.0.1:8080/v1 MODEL

The model asks for what is known, decides, and is told what came of it. An error of the memory is an answer to the tool
call, so that the model can correct itself.
"""

import json
import sys
import urllib.request
from typing import Any

from market import MINUTE, START, minutes, open_home

import tapebook

SYMBOL = "BTC"
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "what_is_known",
            "description": "Everything known about BTC now: bars, account, lessons, experience, citations.",
            "parameters": {"type": "object", "properties": {}},
        },
    },
    {
        "type": "function",
        "function": {
            "name": "decide",
            "description": "Records the decision of this turn. open needs side and notional_usd.",
            "parameters": {
                "type": "object",
                "properties": {
                    "action": {"enum": ["open", "adjust", "close", "hold"]},
                    "side": {"enum": ["long", "short"]},
                    "notional_usd": {"type": "number"},
                    "confidence": {"type": "number"},
                    "reason": {"type": "string"},
                },
                "required": ["action", "confidence", "reason"],
            },
        },
    },
]


class ToolAgent:
    """One turn is a conversation: the model calls tools until it says something."""

    def __init__(self, tb: tapebook.Tapebook, url: str, model: str) -> None:
        self.tb, self.url, self.model = tb, url, model

    def turn(self, price: float, moment: int) -> str:
        # One ticket per turn: after a crash the turn is done again, and its decision is the one that is there.
        self.offer = self.tb.offer_decision("tools", SYMBOL, at=moment)
        messages: list[dict[str, Any]] = [{"role": "user", "content": f"BTC is at {price}. Decide once, then say why."}]
        for _ in range(6):
            answer = self._ask(messages)
            messages.append(answer)
            if not answer.get("tool_calls"):
                return answer.get("content") or ""
            for call in answer["tool_calls"]:
                said = self._call(call["function"]["name"], json.loads(call["function"]["arguments"] or "{}"), price)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})
        return "the model did not come to an end"

    def _ask(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        body = json.dumps({"model": self.model, "messages": messages, "tools": TOOLS}).encode()
        request = urllib.request.Request(f"{self.url}/chat/completions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["choices"][0]["message"]

    def _call(self, name: str, arguments: dict[str, Any], price: float) -> str:
        try:
            if name == "what_is_known":
                return self.offer.text
            run = self.tb.record_decision(self.offer.ticket, arguments.pop("action"), provider=self.model, **arguments)
        except (tapebook.TapebookError, TypeError) as error:
            return f"error: {error}"
        action = run["actions"][0]
        if run["status"] == "placed":
            side = "buy" if action["action"] == "open" else "sell"
            self.tb.record_fill("tools", SYMBOL, id=run["run_id"], side=side, size=0.002, price=price, last=True)
        return json.dumps({"status": run["status"], "verdict": action["verdict"], "detail": action["detail"]})


def run(home: str, url: str, model: str, *, count: int = 150) -> tapebook.ReplayReport:
    clock = tapebook.VirtualClock(START)
    with open_home(home, "tools", clock=clock) as tb:
        agent = ToolAgent(tb, url, model)
        for number, bar in minutes(clock, count, since=tb.now()):
            tb.observe(SYMBOL, candles=[bar], prices=bar["close"])
            if number >= 60 and number % 15 == 0:
                tb.learn("tools")
                print(agent.turn(bar["close"], START + (number + 1) * MINUTE))
        tb.learn("tools")
        return tb.replay()


if __name__ == "__main__":
    report = run(*sys.argv[1:4])
    print(f"replay: {report.equal} of {report.checked} packets equal byte for byte")
