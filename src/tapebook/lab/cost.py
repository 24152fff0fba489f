"""What the models of a backtest may cost, before it starts.

1. The questions are counted: one of each model for every decision that is not made yet, and one for every note.
2. Their prompts are measured: a packet of the plan's end is made, and what the memory may add to it, by the caps of
   its sections, is added in proportion.
3. At most, every answer has all the tokens it may have; usually, what answers of the same model had so far.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import msgspec

from tapebook.clock import VirtualClock
from tapebook.context import CAPS, MEMORY_CAP, assemble
from tapebook.decision.schema import SCHEMA
from tapebook.domain.agent import Deployment, deployment_id
from tapebook.domain.instants import DAY
from tapebook.domain.money import E6
from tapebook.domain.run import Watermarks
from tapebook.domain.text import plural
from tapebook.errors import BadInput
from tapebook.lab.backtest_home import FOLDER, BacktestHome
from tapebook.lab.plan import Plan
from tapebook.lab.spending import spent_by, usual_tokens
from tapebook.lab.words import usd
from tapebook.llm import Asker
from tapebook.llm.port import estimated_tokens
from tapebook.loop.gather import gather
from tapebook.wiring import Rooms

NOTE_TOKENS = 20_000
"""The prompt of a reflection: sixty trades with their reasons and the table of facts are seldom half as much."""

MOST_USD = 1e9
"""More than any backtest costs, and no more than fits its integers."""

# Sections that grow with what an agent did; recent activity, trades, positions and lessons share one budget.
_OWN = ("portfolio", "last_decision")
_REMEMBERED = ("experience", "horizons", "citations")


class CostEstimate(msgspec.Struct, frozen=True):
    """What a backtest, or the rest of one, asks models for, and what that costs at most.

    `usual_usd_e6` is what it costs if answers use what those of the same models used so far; None when none is known.
    `spent_usd_e6` was paid for it before.
    """

    models: tuple[str, ...] = ()
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    most_usd_e6: int = 0
    usual_usd_e6: int | None = None
    spent_usd_e6: int = 0


class _Questions(msgspec.Struct, frozen=True):
    """So many questions to one model, each with a prompt of so many tokens."""

    asker: Asker
    count: int
    prompt_tokens: int


def estimate_cost(rooms: Rooms, plan: Plan) -> CostEstimate:
    """What is left to pay for a plan; nothing where no model is asked, or where it is done."""
    deciding, writing = rooms.askers(plan.agent)
    if not deciding and not writing:
        return CostEstimate()
    asked = [each for each in _questions(rooms, plan, deciding=deciding, writing=writing) if each.count]
    cap = plan.agent.caps.max_model_usd_e6_per_run
    usual = [_usual_usd_e6(rooms, each) for each in asked]
    return CostEstimate(
        models=tuple(dict.fromkeys(each.asker.name for each in asked)),
        calls=sum(each.count for each in asked),
        input_tokens=sum(each.count * each.prompt_tokens for each in asked),
        output_tokens=sum(each.count * each.asker.budget.max_tokens for each in asked),
        # An attempt that is dearer than a run may cost is not made; a shorter prompt than the longest may be sent.
        most_usd_e6=sum(each.count * min(cap, each.asker.attempt_usd_e6(each.prompt_tokens)) for each in asked),
        usual_usd_e6=None if None in usual else sum(filter(None, usual)),
        spent_usd_e6=spent_by(rooms.home, plan.id).cost_usd_e6,
    )


def max_spending(
    estimate: CostEstimate, *, max_usd: float | None, agree: Callable[[CostEstimate], bool]
) -> int:
    """What models may cost in all, in usd_e6: what is given, else the estimate if somebody agrees; else BadInput."""
    if max_usd is not None and not 0 <= max_usd < MOST_USD:
        raise BadInput(f"--max-usd is {max_usd:g}: give the dollars that models may cost, 0 or more")
    agreed = bool(estimate.calls) and agree(estimate)
    if max_usd is not None:
        return round(max_usd * E6)
    if estimate.most_usd_e6 and not agreed:
        raise BadInput(f"{cost_sentence(estimate)}: say with --max-usd what it may cost")
    return estimate.spent_usd_e6 + estimate.most_usd_e6


def _questions(
    rooms: Rooms, plan: Plan, *, deciding: Sequence[Asker], writing: Sequence[Asker]
) -> Iterator[_Questions]:
    slots = _slots_left(rooms, plan)
    decisions = slots * len(plan.symbols)
    if deciding and decisions:
        prompt = _prompt_tokens(rooms, plan)
        yield from (_Questions(each, decisions, prompt) for each in deciding)
    reflection = plan.agent.reflection
    # A decision ends one trade at most.
    days = -(-slots * plan.agent.cadence_ms // DAY)
    notes = days if reflection.cadence == "daily" else decisions // max(1, reflection.every_n_trades)
    yield from (_Questions(each, notes, NOTE_TOKENS) for each in writing)


def _slots_left(rooms: Rooms, plan: Plan) -> int:
    """How many slots have no decision yet."""
    home, cadence, first = BacktestHome(rooms.home / FOLDER / plan.id), plan.agent.cadence_ms, plan.start
    if (home.folder / "plan.json").exists():
        if home.result() is not None:
            return 0
        with closing(Rooms(home.folder, clock=VirtualClock(plan.start))) as own:
            name = deployment_id(plan.agent)
            newest = own.book.last_run(name, plan.symbols[-1], seq=own.book.head(name))
            first = plan.start if newest is None else newest.scheduled_for + cadence
    return len(range(-(-first // cadence) * cadence, plan.end, cadence))


def _prompt_tokens(rooms: Rooms, plan: Plan) -> int:
    """What a prompt of the plan has at most: a packet without memory, measured, and the caps of what may join it."""
    context = msgspec.structs.replace(plan.agent.context, memory=False)
    agent = msgspec.structs.replace(plan.agent, context=context)
    deployment = Deployment(rooms.book.owner, deployment_id(agent), agent, plan.agent_version)
    known = Watermarks(plan.tape_seq, 0)
    packet = assemble(gather(rooms, deployment, plan.symbols[0], as_of=plan.end, watermarks=known))
    grows = sum(max(0, CAPS[name] - packet.section_tokens.get(name, 0)) for name in _OWN)
    if plan.agent.context.memory:
        grows += MEMORY_CAP + sum(CAPS[name] for name in _REMEMBERED)
    measured = estimated_tokens(packet.system, packet.text, msgspec.json.encode(SCHEMA).decode())
    return measured + -(-measured * grows // max(1, packet.tokens))


def cost_sentence(estimate: CostEstimate) -> str:
    """What it may cost, in one line."""
    times, read = plural(estimate.calls, "time"), plural(estimate.input_tokens, "token")
    usual = estimate.usual_usd_e6
    so_far = f"; about {usd(usual)} USD if its answers are as long as those so far" if usual is not None else ""
    before = f", beside {usd(estimate.spent_usd_e6)} USD spent on it before" if estimate.spent_usd_e6 else ""
    return (
        f"{' and '.join(estimate.models)} may be asked {times}: at most {read} in and "
        f"{estimate.output_tokens:,} out, {usd(estimate.most_usd_e6)} USD{before}{so_far}"
    )


def _usual_usd_e6(rooms: Rooms, each: _Questions) -> int | None:
    known, read, written = usual_tokens(rooms.home, each.asker.name)
    if not known:
        return None
    return each.count * each.asker.price.cost_usd_e6(input_tokens=read // known, output_tokens=written // known)
