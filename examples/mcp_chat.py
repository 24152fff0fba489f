"""A chat agent that has nothing but MCP: it reads what is known, decides, and tells what it did, all by tools.

    pip install mcp
    python examples/mcp_chat.py HOME

Here a rule stands for the model. A chat program does the same with its own: Claude, ChatGPT or any other client of MCP
gets the tools of `tapebook mcp`.
"""

import asyncio
import sys
from typing import Any

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


async def chat(client: Client, agent: str, symbol: str, price: float) -> str:
    """One turn: look, read, decide, trade, tell."""
    await call(client, "record", what="price", symbol=symbol, price=price)
    text, ticket = await read_packet(client, agent, symbol)
    holds = "position_side: long" in text
    told = {"action": "close"} if holds else {"action": "open", "side": "long", "notional_usd": 150.0}
    told |= {"reason": "in and out by turns", "confidence": 0.55, "provider": "chat"}
    made = await call(client, "record", what="decision", agent=agent, symbol=symbol, ticket=ticket, **told)
    side, run_id = ("sell" if holds else "buy"), made["id"]
    fill = {"id": f"fill of {run_id}", "side": side, "size": 0.002, "price": price, "run_id": run_id}
    await call(client, "record", what="fill", agent=agent, symbol=symbol, **fill)
    return run_id


async def talk(home: str, agent: str, symbol: str, prices: list[float]) -> None:
    words = StdioServerParameters(
        command=sys.executable, args=["-c", SERVER, "mcp", "--allow", "record", "--home", home]
    )
    async with Client(words) as client:
        for price in prices:
            run_id = await chat(client, agent, symbol, price)
        about = (await call(client, "explain_decision", run_id=run_id))["about"]
        print(f"{about['actions'][0]['action']}: {about['actions'][0]['reason']} ({about['status']})")
        history = await call(client, "query_trade_history", agent=agent)
        print(history["note"])


def run(home: str, prices: list[float]) -> tapebook.ReplayReport:
    tapebook.init(home)
    with tapebook.open(home) as tb:
        tb.add_agent("chat", {"watch": "BTC", "broker": "external"})
    asyncio.run(talk(home, "chat", "BTC", prices))
    with tapebook.open(home) as tb:
        return tb.replay()


if __name__ == "__main__":
    report = run(sys.argv[1], [65_000.0, 65_150.0])
    print(f"replay: {report.equal} of {report.checked} packets equal byte for byte")
