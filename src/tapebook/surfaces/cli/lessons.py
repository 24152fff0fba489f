"""The command `lessons`: what an agent's trades have taught it."""

from tapebook.surfaces.cli.options import Agent, Home, Json, Most, opened
from tapebook.surfaces.cli.output import Column, minute, print_json, print_lines, print_table

NOTES = [
    Column("written", "generated_at", minute),
    Column("status", "status"),
    Column("trades", "trades_considered"),
    Column("hash", "content_hash"),
    Column("by", "written_by"),
    Column("problem", "problem", cut=True),
]


def lessons(agent: Agent, *, most: Most = 10, home: Home = None, json: Json = False) -> None:
    """Show the lessons an agent has now, and the notes before them."""
    with opened(home) as book:
        found = book.lessons(agent, most=most)
    if json:
        print_json(found)
        return
    active = next((note["lessons_text"] for note in found if note["status"] == "active"), None)
    print_lines([*active.splitlines(), ""] if active else [])
    print_table(found, NOTES, empty="no notes yet")
