"""Moments: vectors at fixed look-backs, what came after them, who is similar, and how many cases that is."""

import math
import random
from itertools import pairwise, product

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.agent import ExperienceSettings
from tapebook.domain.market import AssetContext, Candle, Liquidity, LookbackBars, SettledFunding
from tapebook.domain.units import DAY, E8, HOUR, MINUTE
from tapebook.experience import moments, outcome_of, store
from tapebook.experience.events import MomentNoted, SeenFeatures
from tapebook.experience.features import (
    FEATURE_UNIT,
    MOMENT_FIELDS,
    PRICE_FIELDS,
    RANGE_SPANS,
    RETURN_SPANS,
    VOLATILITY_SPANS,
    LookbackFeatures,
    LookbackReader,
    SeenMoment,
    seen_moment,
)
from tapebook.experience.moments import MomentMemory, TradeMemory
from tapebook.experience.rows import ExperienceQuery, similar_experience
from tapebook.experience.similar import (
    MOVE_SPANS,
    MomentNeighbours,
    PastTrade,
    SimilarMoment,
    SimilarPast,
    independent_count,
    move_estimate,
)
from tapebook.experience.situations import whitened_vectors
from tests.experience.makers import T0, Desk, closed, memory_desk
from tests.matrix import examples

QUARTER = 15 * MINUTE


def walk(rng: random.Random, *, start: int, count: int, price: float = 100.0, spread: float = 0.002) -> list[Candle]:
    """Bars of a quarter of an hour that wander at random."""
    bars = []
    for number in range(count):
        close = price * math.exp(rng.gauss(0, spread))
        high = max(price, close) * (1 + abs(rng.gauss(0, spread / 3)))
        low = min(price, close) * (1 - abs(rng.gauss(0, spread / 3)))
        opened, top, bottom, last = (round(each * E8) for each in (price, high, low, close))
        bars.append(Candle("BTC", 900, start + number * QUARTER, opened, top, bottom, last, 1.0, 100.0, 1))
        price = close
    return bars


def hours_of(bars: list[Candle]) -> list[Candle]:
    """The full hours that quarters make."""
    found = []
    for place in range(0, len(bars) - 3, 4):
        four = bars[place : place + 4]
        high, low = max(bar.high_e8 for bar in four), min(bar.low_e8 for bar in four)
        found.append(
            Candle("BTC", 3_600, four[0].bucket_ts, four[0].open_e8, high, low, four[-1].close_e8, 1.0, 100.0, 1)
        )
    return found


def looked_back(bars: list[Candle], hours: list[Candle], end: int) -> LookbackBars:
    """What a reader of the tape is given at a moment."""
    begin = end - end % HOUR - 4 * HOUR
    recent = tuple(bar for bar in bars if begin <= bar.bucket_ts and bar.end <= end)
    return LookbackBars(recent, tuple(bar for bar in hours if end - 8 * DAY <= bar.bucket_ts and bar.end <= begin))


def features_at(bars: list[Candle], hours: list[Candle], end: int) -> LookbackFeatures:
    found = LookbackReader()(looked_back(bars, hours, end))
    assert found is not None
    return found[0]


@given(seed=st.integers(0, 10**6), shift=st.integers(0, 7))
def test_every_price_field_is_filled_once_its_lookback_is_covered(seed: int, shift: int) -> None:
    bars = walk(random.Random(seed), start=T0, count=8 * 96)
    hours = hours_of(bars)
    end = T0 + 7 * DAY + HOUR + shift * QUARTER
    found = LookbackReader()(looked_back(bars, hours, end))
    assert found is not None
    features, fields = found
    assert features.at == end and None not in fields and len(fields) == PRICE_FIELDS
    # The look-backs are those of the tape: closes so long before, extremes of all bars in between.
    closes = {bar.end: bar.close_e8 for bar in bars}
    day = features.window(DAY)
    assert day is not None
    for field, span in zip(fields[: len(RETURN_SPANS)], RETURN_SPANS, strict=True):
        start = end - span if span <= 4 * HOUR else (end - span) // HOUR * HOUR
        # In units of what the day makes usual for such a span.
        usual = day[0] / math.sqrt(24) * math.sqrt(span / HOUR)
        assert field == round(math.log(closes[end] / closes[start]) / usual * FEATURE_UNIT)
    for span in RANGE_SPANS:
        first = end - span if span == 4 * HOUR else -(-(end - span) // HOUR) * HOUR
        inside = [bar for bar in bars if first <= bar.bucket_ts and bar.end <= end]
        window = features.window(span)
        assert window is not None
        assert window[1:] == (min(bar.low_e8 for bar in inside), max(bar.high_e8 for bar in inside))


def test_volatility_is_that_of_the_walk() -> None:
    bars = walk(random.Random(3), start=T0, count=9 * 96, spread=0.002)
    features = features_at(bars, hours_of(bars), T0 + 8 * DAY)
    quarters = {HOUR: 4, 4 * HOUR: 16, DAY: 96, 7 * DAY: 672}
    for span in VOLATILITY_SPANS:
        window = features.window(span)
        assert window is not None
        assert window[0] == pytest.approx(0.002 * math.sqrt(quarters[span]), rel=0.5 if span <= 4 * HOUR else 0.25)


def test_short_histories_leave_fields_open_one_after_the_other() -> None:
    bars = walk(random.Random(1), start=T0, count=8 * 96)
    hours = hours_of(bars)
    known = [0] * 4
    for place, span in enumerate((HOUR, 4 * HOUR, DAY, 7 * DAY)):
        found = LookbackReader()(looked_back(bars, hours, T0 + span + HOUR))
        assert found is not None
        known[place] = sum(each is not None for each in found[1])
    assert known == sorted(known) and known[0] < known[3] == PRICE_FIELDS
    assert LookbackReader()(LookbackBars()) is None


def test_bars_of_one_hour_alone_fill_what_they_can() -> None:
    hours = hours_of(walk(random.Random(2), start=T0, count=9 * 96))
    found = LookbackReader()(LookbackBars((), tuple(hours)))
    assert found is not None
    unknown = [name for name, each in zip(MOMENT_FIELDS, found[1], strict=False) if each is None]
    assert unknown == ["return_15m"]


def test_vector_has_the_rates_and_the_time_and_nothing_that_is_held() -> None:
    bars = walk(random.Random(4), start=T0, count=8 * 96)
    found = LookbackReader()(looked_back(bars, hours_of(bars), T0 + 8 * DAY))
    assert found is not None
    book = Liquidity("BTC", T0, 100 * E8, 2.0, 1e6, 1e6, 1e6, 0.5)
    live = seen_moment(*found, AssetContext("BTC", T0, 12_500_000, 0, 1e5, E8, E8), liquidity=book)
    settled = seen_moment(*found, SettledFunding("BTC", T0, 100_000_000, 8), liquidity=None)
    assert len(live.vector) == len(settled.vector) == len(MOMENT_FIELDS) and "held" not in MOMENT_FIELDS
    named = dict(zip(MOMENT_FIELDS, settled.vector, strict=True))
    assert named["funding"] == dict(zip(MOMENT_FIELDS, live.vector, strict=True))["funding"]
    assert (named["premium"], named["imbalance"], named["spread"]) == (None, None, None)
    assert (named["time_sin"], named["time_cos"]) == (0, FEATURE_UNIT)
    assert [name for name, _ in live.conditions] == ["funding", "spread_bps", "volatility_1h", "volatility_24h"]


def test_reader_gives_what_a_new_one_gives() -> None:
    bars = walk(random.Random(5), start=T0, count=8 * 96)
    hours, reader = hours_of(bars), LookbackReader()
    for end in range(T0 + 7 * DAY, T0 + 8 * DAY, QUARTER):
        seen = looked_back(bars, hours, end)
        kept, fresh = reader(seen), LookbackReader()(seen)
        assert kept is not None and fresh is not None and kept[1] == fresh[1]


class MarketDesk(Desk):
    """A deployment that notes its moments on a market of quarters of an hour."""

    def follow(self, bars: list[Candle], *, since: int, until: int, step: int = HOUR, symbol: str = "BTC") -> None:
        """Notes the moments of decisions one after the other."""
        hours, reader = hours_of(bars), LookbackReader()
        for end in range(since, until, step):
            self.note(moment_at(bars, hours, end, reader=reader), symbol=symbol)

    def note(self, seen: SeenMoment, *, symbol: str = "BTC") -> int:
        """Notes one moment, if it is due."""
        drafts = self.experience.moments.note(self.deployment, symbol, seen, costs_ppm=1_500, seq=self.seq)
        return self.append(drafts)


def moment_at(bars: list[Candle], hours: list[Candle], end: int, *, reader: LookbackReader | None = None) -> SeenMoment:
    found = (reader or LookbackReader())(looked_back(bars, hours, end))
    assert found is not None
    return seen_moment(*found, None, liquidity=None)


@pytest.fixture(scope="module")
def market() -> list[Candle]:
    """Twenty-two days of quarters."""
    return walk(random.Random(11), start=T0, count=22 * 96)


@pytest.fixture(scope="module")
def noted(market: list[Candle]) -> list[tuple[int, MomentNoted]]:
    """The notes of an agent that decides four times an hour, from the eighth day to the twentieth."""
    with memory_desk() as plain:
        desk = MarketDesk(plain.db)
        desk.follow(market, since=T0 + 8 * DAY, until=T0 + 20 * DAY, step=QUARTER)
        return desk.experience.moments.noted_between("d", after=0, until=desk.seq)


def test_one_moment_is_noted_an_hour_with_what_came_after_earlier_ones(
    market: list[Candle], noted: list[tuple[int, MomentNoted]]
) -> None:
    notes = [note for _, note in noted]
    assert [note.number for note in notes] == list(range(1, 12 * 24 + 1))
    assert all(later.at - earlier.at == HOUR for earlier, later in pairwise(notes))
    closes = {bar.end: bar.close_e8 for bar in market}
    known = {(number, place): (move, note.at) for note in notes for number, place, move in note.moves}
    for note in notes[:-24]:
        for place, span in enumerate(MOVE_SPANS):
            move, at = known[note.number, place]
            assert at == note.at + span, "known as soon as its span has passed, and not before"
            assert move == pytest.approx(1e6 * (closes[at] / note.price_e8 - 1), abs=1)


def test_nothing_is_similar_before_its_day_has_passed(noted: list[tuple[int, MomentNoted]]) -> None:
    memory = MomentMemory()
    for seq, note in noted:
        memory.add(seq, note)
    for seq, note in noted[::7]:
        count = memory.joined_count(seq)
        assert count == max(0, note.number - 24)
    fit = memory.fit_newest(200)
    seq, query = noted[240]
    near = memory.neighbours(fit, query.vector, count=memory.joined_count(seq), most=25, size=1_000)
    assert near.searched == 217 and near.moments
    assert all(each.at + DAY <= query.at and None not in each.moves_ppm for each in near.moments)
    times = sorted(each.at for each in near.moments)
    assert all(later - earlier >= 4 * HOUR for earlier, later in pairwise(times))
    few = memory.neighbours(fit, query.vector, count=memory.joined_count(seq), most=25, size=30)
    newest = [note.at for _, note in noted[187:217]]
    assert few.searched == 30 and {each.at for each in few.moments} <= set(newest)


def test_search_is_exact(noted: list[tuple[int, MomentNoted]]) -> None:
    memory = MomentMemory()
    for seq, note in noted:
        memory.add(seq, note)
    fit = memory.fit_newest(264)
    rows = memory.feature_rows(0, 264)
    columns = whitened_vectors(fit, np.ascontiguousarray(rows)).astype(np.int64)
    assert np.abs(columns).max() <= 960
    for _, query in noted[200::11]:
        near = memory.neighbours(fit, query.vector, count=200, most=1, size=1_000)
        asked = np.array([[-(2**15) if each is None else each for each in query.vector]], np.int16)
        away = ((columns[:, :200] - whitened_vectors(fit, asked).astype(np.int64)) ** 2).sum(axis=0)
        assert near.moments[0].distance == int(away.min())
        assert near.moments[0].at == noted[int(away.argmin())][1].at


def test_neighbours_are_the_first_of_the_nearest_that_lie_hours_apart(noted: list[tuple[int, MomentNoted]]) -> None:
    """However many there are, four times as many are looked at as are wanted, and those that are as far."""
    memory = memory_of(noted)
    fit = memory.fit_newest(264)
    columns = whitened_vectors(fit, np.ascontiguousarray(memory.feature_rows(0, 264))).astype(np.int64)
    for (_, query), count, most in product(noted[200::13], (20, 45, 90, 110, 180, 264), (5, 25)):
        asked = np.array([[-(2**15) if each is None else each for each in query.vector]], np.int16)
        away = ((columns[:, :count] - whitened_vectors(fit, asked).astype(np.int64)) ** 2).sum(axis=0).tolist()
        farthest = sorted(away)[: 4 * most][-1]
        chosen: list[int] = []
        for place in sorted(range(count), key=lambda each: (away[each], each)):
            hour = noted[place][1].at // HOUR
            apart = all(abs(noted[each][1].at // HOUR - hour) >= 4 for each in chosen)
            if away[place] <= farthest and apart and len(chosen) < most:
                chosen.append(place)
        found = memory.neighbours(fit, query.vector, count=count, most=most, size=1_000)
        assert [each.distance for each in found.moments] == [away[place] for place in chosen]
        assert [each.at for each in found.moments] == [noted[place][1].at for place in chosen]
        assert found.oldest == min(chosen)


def test_memory_is_a_function_of_the_log(market: list[Candle]) -> None:
    with memory_desk() as plain:
        desk = MarketDesk(plain.db)
        desk.follow(market, since=T0 + 8 * DAY, until=T0 + 15 * DAY)
        hours = hours_of(market)
        asked = moment_at(market, hours, T0 + 15 * DAY)
        settings = ExperienceSettings()
        question = ExperienceQuery(T0 + 15 * DAY, "BTC", "chop_lowvol", ("trend",), asked.vector)
        at = desk.seq
        told = desk.experience.rows_for_packet(
            desk.experience.records_as_of("d", seq=at), question, seq=at, settings=settings
        )
        assert told.rows and told.moves
        desk.follow(market, since=T0 + 15 * DAY, until=T0 + 20 * DAY)
        for experience in (desk.experience, desk.reopened()):
            records = experience.records_as_of("d", seq=at)
            assert experience.rows_for_packet(records, question, seq=at, settings=settings) == told
            now = experience.rows_for_packet(records, question, seq=desk.seq, settings=settings)
            assert now != told
        first = desk.experience.moments.fits("d", seq=desk.seq)[0]
        assert first[1].last == 100


def memory_of(noted: list[tuple[int, MomentNoted]]) -> MomentMemory:
    memory = MomentMemory()
    for seq, note in noted:
        memory.add(seq, note)
    return memory


def test_search_that_goes_on_finds_what_a_new_one_finds(noted: list[tuple[int, MomentNoted]]) -> None:
    memory = memory_of(noted)
    fit, continued, steps = memory.fit_newest(200), 0, 0
    for _, query in noted[100::17]:
        before: MomentNeighbours | None = None
        for count in (*range(150, 264), 200):
            terms = {"count": count, "most": 10, "size": 120}
            found = memory.neighbours(fit, query.vector, **terms, before=before)
            assert found == memory.neighbours(fit, query.vector, **terms)
            continued += before is not None and found.moments is before.moments
            steps, before = steps + 1, found
    assert continued > steps / 2


def test_trades_in_memory_are_bounded_and_older_ones_read_again(
    market: list[Candle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_BATCH", 7)
    settings = ExperienceSettings(max_memory_size=20, neighbours=5)
    with memory_desk() as plain:
        desk, hours, reader = MarketDesk(plain.db), hours_of(market), LookbackReader()
        desk.follow(market, since=T0 + 8 * DAY, until=T0 + 14 * DAY)
        told = []
        for number in range(90):
            seen = moment_at(market, hours, T0 + 14 * DAY + number * HOUR, reader=reader)
            outcome = outcome_of(closed(number, net_bps=number, trade_id=f"t{number}"), None)
            pair = (outcome, SeenFeatures(None, seen.vector))
            desk.append(desk.experience.learn_outcomes("d", [pair], seq=desk.seq))
            told.append((desk.seq, seen.vector))
        fit = desk.experience.moments.fit_as_of("d", seq=desk.seq)
        assert fit is not None
        for experience in (desk.experience, desk.reopened()):
            for place, (seq, vector) in [*enumerate(told)][::-8] + [*enumerate(told)][::8]:
                found = experience.similar("d", vector, seq=seq, settings=settings)
                assert found is not None and len(experience._trades["d"][1]._trades) <= 40
                # The newest twenty by then, of which the one just entered is nearest.
                newest = told[max(0, place - 19) : place + 1]
                everyone = TradeMemory(keep=1_000)
                everyone.extend([PastTrade(at, "", 1, 0, 0, each) for at, each in newest], seq=seq)
                query = everyone.whitened_query(fit, vector)
                plainly = everyone.nearest_trades(fit, query, count=len(newest), most=5, size=1_000)
                assert [(away, each.seq) for away, each in found.trades] == [(away, each.seq) for away, each in plainly]
                assert found.trades[0][0] == 0


def test_memory_is_bounded_and_reads_older_moments_again(market: list[Candle], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "FIT_WINDOW", 30)
    settings = ExperienceSettings(max_memory_size=40, neighbours=5)
    with memory_desk() as plain:
        desk, told, hours, reader = MarketDesk(plain.db), [], hours_of(market), LookbackReader()
        for end in range(T0 + 8 * DAY, T0 + 18 * DAY, HOUR):
            seen = moment_at(market, hours, end, reader=reader)
            desk.note(seen)
            told.append(
                (desk.seq, seen.vector, desk.experience.similar("d", seen.vector, seq=desk.seq, settings=settings))
            )
            memory = desk.experience.moments._memories["d"]
            assert len(memory._joined_at) == len(memory._joined) <= 80 and len(memory._vectors) <= 80
        assert memory.joined_count(desk.seq) == 216 and not memory.holds(told[100][0], size=40)
        assert sum(found is not None for _, _, found in told) > 100
        # Backwards, then forwards: each older prefix is read from the table, and what follows it is added.
        for experience in (desk.experience, desk.reopened()):
            for seq, vector, found in (*told[::-31], *told[::31]):
                assert experience.similar("d", vector, seq=seq, settings=settings) == found


def test_single_writer_does_not_read_back_what_it_noted(market: list[Candle], monkeypatch: pytest.MonkeyPatch) -> None:
    with memory_desk() as plain:
        desk, hours, reader = MarketDesk(plain.db), hours_of(market), LookbackReader()
        desk.follow(market, since=T0 + 8 * DAY, until=T0 + 9 * DAY)
        follower = desk.experience
        follower.situation_count("d", seq=desk.seq)

        def refuse(*_: object, **__: object) -> list[tuple[int, MomentNoted]]:
            raise AssertionError("notes are read back")

        monkeypatch.setattr(follower.moments, "noted_between", refuse)
        for end in range(T0 + 9 * DAY, T0 + 15 * DAY, HOUR):
            seen, before = moment_at(market, hours, end, reader=reader), desk.seq
            desk.note(seen)
            for event in desk.log.events(desk.stream, after=before):
                follower.moments.follow(event)
            settings = ExperienceSettings()
            found = follower.similar("d", seen.vector, seq=desk.seq, settings=settings)
            if end % (6 * HOUR) == 0:
                assert found == desk.reopened().similar("d", seen.vector, seq=desk.seq, settings=settings)
        assert found is not None and len(follower.moments.fits("d", seq=desk.seq)) == 2


def test_gap_of_the_tape_leaves_a_move_out(market: list[Candle]) -> None:
    torn = [bar for bar in market if not T0 + 9 * DAY <= bar.bucket_ts < T0 + 9 * DAY + 5 * HOUR]
    with memory_desk() as plain:
        desk = MarketDesk(plain.db)
        hours = [hour for hour in hours_of(market) if not T0 + 9 * DAY <= hour.bucket_ts < T0 + 9 * DAY + 5 * HOUR]
        reader = LookbackReader()
        for end in range(T0 + 8 * DAY, T0 + 12 * DAY, HOUR):
            desk.note(moment_at(torn, hours, end, reader=reader))
        memory = MomentMemory()
        for seq, note in desk.experience.moments.noted_between("d", after=0, until=desk.seq):
            memory.add(seq, note)
        near = memory.neighbours(memory.fit_newest(60), note.vector, count=60, most=60, size=60)
        assert any(None in each.moves_ppm for each in near.moments)
        assert all(each.moves_ppm[-1] is not None for each in near.moments)


@given(
    starts=st.lists(st.integers(0, 200), min_size=1, max_size=25).map(lambda each: [HOUR * at for at in each]),
    span=st.sampled_from(MOVE_SPANS),
)
def test_independent_cases_are_at_most_those_there_are(starts: list[int], span: int) -> None:
    found = independent_count(starts, span)
    assert 1 <= found <= len(starts) + 1e-9
    # Whoever knows how far they are apart at least gets the same, to the last digit.
    gap = min([later - earlier for earlier, later in pairwise(sorted(starts))], default=0)
    assert independent_count(starts, span, gap=gap) == found
    apart = [span * number for number in range(len(starts))]
    assert independent_count(apart, span) == len(starts)
    assert independent_count([starts[0]] * 7, span) == pytest.approx(1)


def test_intervals_hold_the_truth_where_windows_overlap() -> None:
    """Moves of a walk without drift, from windows of a day that begin a few hours apart."""
    rng, held, naive = random.Random(7), 0, 0
    rounds = 400
    for _ in range(rounds):
        path = [0.0]
        for _ in range(40 * 24):
            path.append(path[-1] + rng.gauss(0, 50))
        starts = sorted(rng.sample(range(0, 39 * 24, 4), 25))
        moves = [round(path[at + 24] - path[at]) for at in starts]
        found = move_estimate([at * HOUR for at in starts], moves, span=DAY)
        assert found is not None and found.n == 25 and found.independent < 25
        held += found.low_bps <= 0 <= found.high_bps
        plain = move_estimate([at * DAY for at in range(25)], moves, span=DAY)
        assert plain is not None
        naive += plain.low_bps <= 0 <= plain.high_bps
    assert held >= 0.92 * rounds
    assert naive < held


def neighbours(moves: list[tuple[int | None, int | None, int]], *, distance: int = 10) -> MomentNeighbours:
    made = [SimilarMoment("kPEPE", T0 + number * 2 * DAY, distance, each) for number, each in enumerate(moves)]
    return MomentNeighbours(tuple(made), 99_999, 100)


@given(
    moves=st.lists(st.tuples(*[st.integers(-(10**7), 10**7)] * 3), min_size=1, max_size=25),
    held=st.sampled_from((-1, 0, 1)),
    results=st.lists(st.tuples(st.sampled_from((-1, 1)), st.integers(-(10**7), 10**7)), max_size=25),
)
def test_rows_are_whole_whatever_the_numbers(
    moves: list[tuple[int, int, int]], held: int, results: list[tuple[int, int]]
) -> None:
    trades = [(5, PastTrade(1, "kPEPE", side, T0, ppm, ())) for side, ppm in results]
    found = similar_experience(SimilarPast(neighbours(list(moves)), tuple(trades)), held=held, costs_bps=15.0)
    for row in found.rows:
        assert len(row.name) <= 60 and len(row.value) <= 120, "a packet cuts what is longer"
        assert row.value.count("(") == row.value.count(")")


def test_what_is_held_turns_the_sign_and_nothing_else() -> None:
    near = neighbours([(1_000, 2_000, 3_000 + 10 * number) for number in range(10)])
    flat, long, short = (similar_experience(SimilarPast(near), held=held, costs_bps=15.0).rows for held in (0, 1, -1))
    assert flat[0].value.startswith("+10 bps (95% ") and flat[0].value.endswith("; long -5 after costs")
    assert (long[0].name, short[0].name) == ("next 1 h for the long held", "next 1 h for the short held")
    assert long[0].value.startswith("+10 bps") and short[0].value.startswith("-10 bps")
    assert long[3] == short[3] == flat[3]
    assert flat[3].value == "kPEPE 2026-01-05T00:00: 1 h +10, 4 h +20, 24 h +30 bps"


def test_what_is_too_far_says_so() -> None:
    found = similar_experience(SimilarPast(neighbours([(1, 2, 3)], distance=400)), held=0, costs_bps=15.0)
    assert [row.value for row in found.rows] == [
        "unlike anything seen: the nearest of 99,999 moments is 2.0 times as far as is usual"
    ]
    assert found.moves == ()


def test_planted_twin_is_found_first() -> None:
    """A week of the market that came before, at another price and a little different, is what is most alike."""
    rng, first = random.Random(23), 0
    rounds = examples(100)
    market = walk(rng, start=T0, count=40 * 96)
    hours, reader = hours_of(market), LookbackReader()
    moments = {end: moment_at(market, hours, end, reader=reader) for end in range(T0 + 8 * DAY, T0 + 39 * DAY, HOUR)}
    with memory_desk() as plain:
        desk = MarketDesk(plain.db)
        for seen in moments.values():
            desk.note(seen)
        settings = ExperienceSettings(max_memory_size=10_000)
        for _ in range(rounds):
            end = rng.choice(range(T0 + 8 * DAY, T0 + 37 * DAY, HOUR))
            twin = twin_of([bar for bar in market if end - 8 * DAY <= bar.bucket_ts < end], rng)
            query = moment_at(twin, hours_of(twin), end)
            found = desk.experience.similar("d", query.vector, seq=desk.seq, settings=settings)
            assert found is not None
            first += found.moments.moments[0].at == end
    assert first >= 0.95 * rounds


def twin_of(bars: list[Candle], rng: random.Random) -> list[Candle]:
    """The same bars at three times the price, each of them moved by two basis points."""
    found = []
    for bar in bars:
        factor = 3 * (1 + rng.gauss(0, 0.0002))
        prices = [round(each * factor) for each in (bar.open_e8, bar.high_e8, bar.low_e8, bar.close_e8)]
        found.append(
            msgspec.structs.replace(bar, **dict(zip(("open_e8", "high_e8", "low_e8", "close_e8"), prices, strict=True)))
        )
    return found
