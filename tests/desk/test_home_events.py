"""What a watcher of a home sees: each thing once, whoever did it, and totals that are the sums of the lines."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tapebook.book.events import OrderUnanswered, draft_event
from tapebook.clock import VirtualClock
from tapebook.decision import EngineAnswer
from tapebook.desk import home_events
from tapebook.desk.home_events import HomeEvent, HomeEvents, HomeTotals, HomeWatch
from tapebook.domain.agent import AgentProfile, Note
from tapebook.domain.market import Gap, Mid
from tapebook.domain.run import Usage
from tapebook.domain.units import E8, MINUTE, SECOND
from tapebook.errors import DatabaseAway
from tapebook.lessons.notes import draft_note_refused
from tapebook.tape.source import SourceProblem
from tapebook.tick.decide import Slot, record_unmade_runs
from tapebook.tick.story import tick
from tapebook.wiring import Rooms
from tests.desk.desks import START, Desk, desk, reply


def lines(events: list[HomeEvent]) -> list[tuple[str, str, str, str]]:
    """Kind, agent, symbol and text of each."""
    return [(each.kind, each.agent, each.symbol, each.text) for each in events]


def test_a_trade_is_a_line_for_each_step_and_is_shown_once(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        floor.quote(BTC=100)
        watch = HomeEvents(floor.rooms)
        floor.say(agent, reply("open", "long", 500, confidence=0.64))
        floor.later(10_000, BTC=100)
        floor.work(agent)
        assert lines(watch.new_events()) == [
            ("decision", "a", "BTC", "open long 500.00 USD at 1x, confidence 0.64: because"),
            ("order", "a", "BTC", "buy 5, market"),
            ("fill", "a", "BTC", "buy 5 at 100.01, 500.05 USD, fee 0.23 USD"),
        ]
        assert watch.new_events() == []
        floor.later(MINUTE, BTC=110)
        floor.say(agent, reply("close"))
        floor.later(10_000, BTC=110)
        floor.work(agent)
        kinds = lines(watch.new_events())
        assert [kind for kind, *_ in kinds] == ["decision", "order", "fill", "trade"]
        assert kinds[0][3] == "close, confidence 0.00: because"
        assert kinds[1][3] == "sell 5, market, reduce only"
        assert kinds[3][3].startswith("closed long after 1 min, net 4")
        totals = watch.totals
        assert (totals.decisions, totals.holds, totals.orders_sent, totals.fills, totals.trades) == (2, 0, 2, 2, 1)
        assert (totals.refusals, totals.failures, totals.model_calls, totals.model_usd) == (0, 0, 0, 0.0)


def test_holds_refusals_failures_and_what_a_model_cost(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        floor.quote(BTC=100)
        watch = HomeEvents(floor.rooms)
        usage = Usage("claude-x", 1_200, 80, 4_200, attempts=2)

        def say(answer: EngineAnswer) -> None:
            floor.later(SECOND, BTC=100)
            tick(floor.rooms, Slot(agent, "BTC", floor.clock.now()), ask=lambda _rooms, _opened: answer)

        say(EngineAnswer(reply("hold"), usage=usage))
        say(EngineAnswer(reply("open", "long", 50_000)))
        say(EngineAnswer("no json at all"))
        unpaid = msgspec.structs.replace(usage, cost_usd_e6=0)
        say(EngineAnswer("", problem="the server says 401: invalid x-api-key", usage=unpaid))
        found = lines(watch.new_events())
        assert [kind for kind, *_ in found] == [
            *("decision", "model", "decision", "refusal", "refusal", "failure", "model")
        ]
        texts = [text for *_, text in found]
        assert texts[0] == "hold, confidence 0.00: because"
        assert texts[1] == "claude-x: 1,200 tokens in, 80 out, 2 calls, 0.004200 USD"
        assert texts[3].startswith("R") and "position" in texts[3]
        assert texts[4].startswith("the reply was not understood: ")
        assert texts[5] == "the server says 401: invalid x-api-key"
        totals = watch.totals
        assert (totals.decisions, totals.holds, totals.refusals, totals.failures) == (2, 1, 2, 1)
        assert (totals.model_calls, totals.model_usd, totals.orders_sent) == (4, 0.0042, 0)
        assert totals.sentence() == (
            "2 decisions (1 hold), 0 orders sent, 0 fills, 2 refusals, 1 failure, 4 model calls for 0.004200 USD"
        )


def test_what_gate_and_broker_refuse_or_do_not_answer_names_its_symbol(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        floor.quote(BTC=100, ETH=10)
        floor.say(agent, reply("open", "long", 300, symbol="ETH", order_type="limit", limit_price=9.9), symbol="ETH")
        (order,) = floor.working(agent)
        # The order was intended before anybody looked.
        watch = HomeEvents(floor.rooms)
        book = floor.rooms.book
        doubt = draft_event(floor.clock.now(), OrderUnanswered(order.client_id, "no answer came"))
        book.append(agent.id, [doubt], expected_seq=book.head(agent.id))
        floor.later(61 * MINUTE, ETH=10)
        floor.work(agent)
        found = lines(watch.new_events())
        assert ("failure", "a", "ETH", "order buy 30, limit 9.9000: no answer came") in found
        (ended,) = [line for line in found if line[0] == "order"]
        assert ended[:3] == ("order", "a", "ETH") and ended[3].startswith("cancelled: buy 30, limit 9.9000")
        assert (watch.totals.failures, watch.totals.orders_sent) == (1, 0)


def test_slots_that_were_missed_together_are_one_line(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        floor.quote(BTC=100)
        watch = HomeEvents(floor.rooms)
        slots = [Slot(agent, "BTC", START + 5 * MINUTE * number) for number in range(3)]
        floor.later(20 * MINUTE, BTC=100)
        record_unmade_runs(floor.rooms, slots, status="expired", error="no desk ran")
        assert lines(watch.new_events()) == [
            ("missed", "a", "BTC", "3 slots from 06:00 to 06:10: no desk ran"),
        ]
        record_unmade_runs(
            floor.rooms, [Slot(agent, "ETH", START + 15 * MINUTE)], status="failed", error="KeyError: 'x'"
        )
        assert lines(watch.new_events()) == [("failure", "a", "ETH", "KeyError: 'x'")]
        assert (watch.totals.missed, watch.totals.failures, watch.totals.decisions) == (3, 1, 0)
        assert watch.totals.sentence().endswith("1 failure, 3 missed slots")


def test_dry_orders_halts_and_refused_notes(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire(AgentProfile("a", ("BTC",), mode="dry_run"))
        floor.quote(BTC=100)
        watch = HomeEvents(floor.rooms)
        floor.say(agent, reply("open", "long", 500))
        book, usage = floor.rooms.book, Usage("m", 10, 5, 1_000, attempts=1)
        note = Note("n", "a", 1, floor.clock.now(), 0, 0, 10, "", "", "model", usage)
        book.append(agent.id, [draft_note_refused(note, "it names a price")], expected_seq=book.head(agent.id))
        floor.halt("", reason="lunch")
        found = lines(watch.new_events())
        assert ("order", "a", "BTC", "dry run, never sent: buy 5, market") in found
        assert ("failure", "a", "", "reflection: it names a price") in found
        assert ("model", "a", "", "m: 10 tokens in, 5 out, 1 call, 0.001000 USD") in found
        assert ("desk", "", "", "halted: lunch") in found
        assert watch.totals.orders_sent == 0 and watch.totals.dry_orders == 1
        assert Counter(kind for kind, *_ in found)["decision"] == 1


def test_every_agent_also_one_that_is_added_meanwhile_and_no_other_owner(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        watch = HomeEvents(floor.rooms)
        agent = floor.hire()
        floor.quote(BTC=100)
        floor.say(agent, reply("hold"))
        (home,) = [tmp_path / "home"]
        (home / "tapebook.toml").write_text('owner = "other"\n', "utf-8")
        other = Desk(Rooms(home, clock=floor.clock), floor.clock)
        other.say(other.hire(), reply("hold"))
        other.rooms.close()
        assert lines(watch.new_events()) == [("decision", "a", "BTC", "hold, confidence 0.00: because")]


def test_the_newest_lines_are_the_last_of_all_however_few_events_are_read(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agents = [floor.hire(AgentProfile(name, ("BTC",))) for name in ("a", "b")]
        floor.quote(BTC=100)
        # Two accounts whose events lie between each other, and many of one behind those of the other.
        for price, agent in zip(range(100, 160, 2), [*agents * 4, *agents[:1] * 20], strict=False):
            floor.say(agent, reply("open", "long", 500) if price % 4 else reply("close"))
            floor.later(10_000, BTC=price)
            floor.work(agent)
        every = lines(HomeEvents(floor.rooms, since=START).new_events())
        assert len(every) > 40
        for most in (1, 2, 5, 17, 40, 1_000):
            assert lines(HomeEvents(floor.rooms, since=START).newest_events(most)) == every[-most:]


@pytest.fixture
def market(tmp_path: Path) -> Iterator[tuple[Desk, HomeEvents]]:
    """A desk with one price, and who watches it."""
    with desk(tmp_path / "home") as floor:
        floor.quote(BTC=100)
        yield floor, HomeEvents(floor.rooms)


def test_a_market_that_goes_away_and_comes_back(market: tuple[Desk, HomeEvents]) -> None:
    floor, watch = market
    tape = floor.rooms.tape
    assert watch.new_events() == []
    floor.later(5 * SECOND, BTC=100)
    lost = SourceProblem("hyperliquid", "connection", "", "the server hung up")
    tape.note_problems([lost])
    assert lines(watch.new_events()) == [("market", "", "", "connection lost: the server hung up")]
    floor.later(20 * SECOND)
    tape.note_problems([lost])
    assert watch.new_events() == [], "said once"
    floor.later(60 * SECOND)
    assert lines(watch.new_events()) == [("market", "", "", "prices stale: the newest is 80 s old")]
    floor.later(20 * SECOND)
    tape.note_problems([lost])
    assert watch.new_events() == []
    gaps = [Gap("hyperliquid", "candles", symbol, START, START + 2 * MINUTE, "the server hung up") for symbol in "ab"]
    silent = Gap("hyperliquid", "mids", "*", START, START + MINUTE, "x")
    floor.later(5 * SECOND)
    tape.commit([Mid("BTC", floor.clock.now(), 100 * E8)], gaps=[*gaps, silent])
    assert lines(watch.new_events()) == [("market", "", "", "prices back after 105 s")]
    assert lines(watch.new_events()) == [
        ("market", "", "", "gap found: candles of 2 symbols and mids, 06:00:00 to 06:02:00 (the server hung up)")
    ]
    tape.commit([], filled=gaps[:1])
    assert watch.new_events() == []
    tape.commit([], filled=gaps[1:])
    assert watch.new_events() == []
    assert lines(watch.new_events()) == [("market", "", "", "gap filled: candles of 2 symbols, 06:00:00 to 06:02:00")]
    assert watch.new_events() == []


def test_an_old_tape_is_not_stale_before_anybody_could_listen(market: tuple[Desk, HomeEvents]) -> None:
    floor, _ = market
    floor.later(60 * MINUTE)
    watch = HomeEvents(floor.rooms)
    assert watch.new_events() == []
    floor.later(61 * SECOND)
    assert lines(watch.new_events()) == [("market", "", "", "prices stale: the newest is 3,661 s old")]


def test_an_event_as_a_program_reads_it(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        floor.quote(BTC=100)
        watch = HomeEvents(floor.rooms)
        run = floor.say(agent, reply("hold", confidence=0.5))
        (event,) = watch.new_events()
        assert event.to_dict() == {
            "event": "decision",
            "at": "2026-01-05T06:00:00.001Z",
            "agent": "a",
            "symbol": "BTC",
            "text": "hold, confidence 0.50: because",
            "run_id": run.run_id,
            "status": "held",
            "actions": ["hold"],
        }
        totals = watch.totals.to_dict()
        assert totals["event"] == "summary" and totals["decisions"] == totals["holds"] == 1


def test_a_read_that_fails_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        floor.quote(BTC=100)
        watch = HomeEvents(floor.rooms)
        floor.say(agent, reply("open", "long", 500))
        floor.later(10_000, BTC=100)
        floor.work(agent)
        reads = {"book": "order", "tape": "channels", "log": "heads"}
        for room, name in reads.items():
            with monkeypatch.context() as patch, pytest.raises(DatabaseAway):
                patch.setattr(getattr(floor.rooms, room), name, away)
                # As if the order had been intended before anybody looked.
                patch.setitem(home_events._LINES, "order.intended", lambda watch, event: ())
                watch.new_events()
        assert [event.kind for event in watch.new_events()] == ["decision", "order", "fill"]
        assert (watch.totals.decisions, watch.totals.orders_sent, watch.totals.fills) == (1, 1, 1)


def away(*_: object, **__: object) -> None:
    """A database that does not answer."""
    raise DatabaseAway("it restarts")


def test_a_watch_begins_where_it_was_made_however_late_the_database_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        floor.quote(BTC=100)
        floor.later(SECOND, BTC=100)
        floor.say(agent, reply("hold"))
        floor.later(SECOND, BTC=100)
        real, shown, tries = Rooms, list[HomeEvent](), list[int]()

        def open_rooms(home: Path, *, clock: VirtualClock) -> Rooms:
            tries.append(1)
            if len(tries) == 1:
                raise DatabaseAway("it restarts")
            return real(home, clock=VirtualClock(floor.clock.now()))

        monkeypatch.setattr(home_events, "Rooms", open_rooms)
        totals = HomeTotals()
        watch = HomeWatch(tmp_path / "home", clock=floor.clock, show=shown.append, totals=totals, print_line=fail)
        with watch:
            floor.later(SECOND, BTC=100)
            floor.say(agent, reply("hold"))
        assert [event.kind for event in shown] == ["decision"] and totals.decisions == 1


def fail(line: str) -> None:
    """Nothing is to be said."""
    pytest.fail(line)


def test_lines_that_nobody_takes_end_the_watcher(tmp_path: Path) -> None:
    def closed(event: HomeEvent) -> None:
        raise BrokenPipeError

    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        floor.quote(BTC=100)
        watch = HomeWatch(tmp_path / "home", clock=floor.clock, show=closed, totals=HomeTotals(), print_line=fail)
        with watch:
            watch.raise_if_failed()
            floor.later(SECOND, BTC=100)
            floor.say(agent, reply("hold"))
        with pytest.raises(BrokenPipeError):
            watch.raise_if_failed()
