"""A chat agent that has nothing but MCP: it reads what is known, decides, and tells what it did, all by tools.

    pip install mcp
    python examples/mcp_chat.py HOME

Here a rule stands for the model. A chat program does the same with its own: Claude, ChatGPT or any other client of MCP
gets the tools of `tapebook mcp`.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from market import open_home
from mcp import Client, StdioServerParameters

import tapebook

SERVER = "import sys; from tapebook.surfaces.cli import main; sys.exit(main())"


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """What a tool answers; what it refuses is for the model to read."""
    answer = await client.call_tool(name, arguments)
    if answer.is_error:
        raise SystemExit(f"{name}: {answer.content[0].text}")
    return answer.structured_content


async def read_packet(client: Client, agent: str, symbol: str) -> tuple[str, str]:
    """The whole text, page by page, and the ticket of the decision."""
    page = await call(client, "context_packet", agent=agent, symbol=symbol)
    text, ticket = page["text"], page["about"]["ticket"]
    while page["next_cursor"]:
        page = await call(client, "context_packet", agent=agent, symbol=symbol, cursor=page["next_cursor"])
        text += page["text"]
    return text, ticket


async def chat(client: Client, agent: str, symbol: str, price: float, turn: Path) -> str:
    """One turn: look, read, decide, trade, tell. What was decided is noted first, so that a cut turn is told again."""
    if not turn.exists():
        await call(client, "record", what="price", symbol=symbol, price=price)
        text, ticket = await read_packet(client, agent, symbol)
        told = {"action": "close"} if "position_side: long" in text else {"action": "open", "side": "long"}
        told |= {"notional_usd": 150.0} if told["action"] == "open" else {}
        written = turn.with_suffix(".part")
        written.write_text(json.dumps({"ticket": ticket, **told}), "utf-8")
        written.rename(turn)
    told = json.loads(turn.read_text("utf-8")) | {
        "reason": "in and out by turns",
        "confidence": 0.55,
        "provider": "chat",
    }
    made = await call(client, "record", what="decision", agent=agent, symbol=symbol, **told)
    side, run_id = ("buy" if told["action"] == "open" else "sell"), made["id"]
    fill = {"id": f"fill of {run_id}", "side": side, "size": 0.002, "price": price, "run_id": run_id}
    await call(client, "record", what="fill", agent=agent, symbol=symbol, **fill)
    return run_id


async def talk(home: str, agent: str, symbol: str, prices: list[float]) -> None:
    words = StdioServerParameters(
        command=sys.executable, args=["-c", SERVER, "mcp", "--allow", "record", "--home", home]
    )
    async with Client(words) as client:
        for number, price in enumerate(prices):
            run_id = await chat(client, agent, symbol, price, Path(f"{home}-turn-{number}.json"))
            print(f"turn {number}: {run_id}", flush=True)
        about = (await call(client, "explain_decision", run_id=run_id))["about"]
        print(f"{about['actions'][0]['action']}: {about['actions'][0]['reason']} ({about['status']})")
        history = await call(client, "query_trade_history", agent=agent)
        print(history["note"])


def run(home: str, prices: list[float]) -> tapebook.ReplayReport:
    open_home(home, "chat").close()
    asyncio.run(talk(home, "chat", "BTC", prices))
    with tapebook.open(home) as tb:
        return tb.replay()


if __name__ == "__main__":
    report = run(sys.argv[1], [65_000.0, 65_150.0])
    print(f"replay: {report.equal} of {report.checked} packets equal byte for byte")
