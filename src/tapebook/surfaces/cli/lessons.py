"""Commands on lessons: `lessons show`, `lessons promote`, `lessons demote`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tapebook.surfaces.cli.options import Agent, Home, Json, Most, open_home
from tapebook.surfaces.cli.output import Column, minute, print_json, print_lines, print_table

LESSONS = [
    Column("lesson", "lesson_id"),
    Column("status", "status"),
    Column("slot", "slot"),
    Column("later", "later_trades"),
    Column("for", "capital_for"),
    Column("against", "capital_against"),
    Column("claim", "statement", cut=True),
]
HISTORY = [
    Column("at", "at", minute),
    Column("lesson", "lesson_id"),
    Column("change", "change"),
    Column("claim", "statement", cut=True),
]
NOTES = [
    Column("written", "generated_at", minute),
    Column("status", "status"),
    Column("trades", "trades_considered"),
    Column("hash", "content_hash"),
    Column("by", "written_by"),
    Column("problem", "problem", cut=True),
]


class ShowsByDefault(TyperGroup):
    """A group in which `tapebook lessons AGENT` is short for `tapebook lessons show AGENT`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts the word `show` in front of what is not a command."""
        own = {*self.commands, *ctx.help_option_names}
        return super().parse_args(ctx, args if not args or args[0] in own else ["show", *args])


group = typer.Typer(
    cls=ShowsByDefault,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="What an agent's trades taught it; lessons AGENT shows it.",
)


@group.command()
def show(agent: Agent, *, most: Most = 10, home: Home = None, json: Json = False) -> None:
    """Show an agent's lessons with their evidence, and its notes."""
    with open_home(home) as book:
        found, shared = book.lessons(agent, most=most), book.skills.notes_for(agent)
        trials = book.hypotheses(agent, most=most)
    if json:
        print_json({**trials, "notes": found})
        return
    active = next((note["lessons_text"] for note in found if note["status"] == "active"), None)
    print_lines([*active.splitlines(), ""] if active else [])
    for note in shared:
        print_lines([f"promoted by {note.agent} to {note.skill}:", *note.lessons_text.splitlines(), ""])
    if trials["lessons"]:
        print_table([_lesson_row(lesson) for lesson in trials["lessons"]], LESSONS, empty="")
        changes = [{**change, **_lesson_row(change["lesson"])} for change in trials["history"]]
        print_lines([""])
        print_table(changes, HISTORY, empty="")
        print_lines([""])
    print_table(found, NOTES, empty="no notes yet")


def _lesson_row(lesson: Mapping[str, Any]) -> dict[str, Any]:
    later = lesson["later"]
    capital = {name: f"{later[name]:.2f}" for name in ("capital_for", "capital_against")}
    return {**lesson, **capital, "later_trades": later["trades"]}


@group.command()
def promote(
    agent: Agent,
    *,
    to: Annotated[str | None, typer.Option("--to", metavar="AGENT", help="Promote it to one other agent.")] = None,
    skill: Annotated[
        str | None, typer.Option("--skill", metavar="NAME", help="Promote it to all agents with a skill.")
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Have other agents told what stands in an agent's note."""
    if to is not None and skill is not None:
        raise typer.BadParameter("name an agent or a skill, not both", param_hint="--to")
    with open_home(home) as book:
        done = book.skills.promote(agent, to=to, skill=skill)
    if json:
        print_json(done)
    else:
        print_lines([done.result_line()])


@group.command()
def demote(
    skill: Annotated[str, typer.Argument(metavar="SKILL", help="A skill, or the agent it was promoted to.")],
    *,
    home: Home = None,
    json: Json = False,
) -> None:
    """Take back what was promoted to a skill or an agent."""
    with open_home(home) as book:
        done = book.skills.demote(skill)
    if json:
        print_json(done)
    else:
        print_lines([done.result_line()])
