"""Every quirk of Polymarket and every trap of DefiLlama: where it is handled, and the test that fails without that.

The table names the line that handles a quirk and what the line would be if nobody knew of it. That both the line and
the test exist is looked at each time; `make proof` takes each line away in a copy and sees the test fail.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parents[2]
POLYMARKET, DEFILLAMA = "src/tapebook/sources/polymarket", "src/tapebook/sources/defillama"
WIRE_TESTS, CRAWL_TESTS = "tests/sources/polymarket/test_wire.py", "tests/sources/polymarket/test_crawl.py"
LLAMA_TESTS = "tests/sources/defillama/test_snapshot.py"


class Quirk(msgspec.Struct, frozen=True):
    """What a server does, which words of a file handle it, those of somebody who knew nothing, and the test."""

    name: str
    file: str
    handled: str
    naive: str
    test: str


QUIRKS = (
    Quirk(
        *("lists are texts that hold JSON", f"{POLYMARKET}/wire.py"),
        *("    if isinstance(value, str):\n        try:", "    if value is ...:\n        try:"),
        f"{WIRE_TESTS}::test_1_lists_are_texts_that_hold_json_and_may_be_missing",
    ),
    Quirk(
        *("lists may be missing or empty", f"{POLYMARKET}/wire.py"),
        *("except msgspec.DecodeError:\n            return ()", "except KeyError:\n            return ()"),
        f"{WIRE_TESTS}::test_1_lists_are_texts_that_hold_json_and_may_be_missing",
    ),
    Quirk(
        *("closedTime has a form of its own", "src/tapebook/sources/_polling.py"),
        *(
            "return parse_instant(text.strip()) if text else None",
            'return parse_instant(text) if "T" in text else None',
        ),
        f"{WIRE_TESTS}::test_2_the_time_of_a_close_has_a_form_of_its_own",
    ),
    Quirk(
        *("a closed market is active", f"{POLYMARKET}/wire.py"),
        *(
            '        closed=row.get("closed") is True,\n        resolutions=way,',
            '        closed=row.get("active") is not True,\n        resolutions=way,',
        ),
        f"{WIRE_TESTS}::test_3_closed_is_the_settlement_whatever_active_says",
    ),
    Quirk(
        *("open events are no default", f"{POLYMARKET}/crawl.py"),
        *('{"closed": "false", "order": "id", "ascending": "true"}', '{"order": "id", "ascending": "true"}'),
        f"{CRAWL_TESTS}::test_a_crawl_walks_all_pages_searches_and_reads_books",
    ),
    Quirk(
        *("the cursor has one name", f"{POLYMARKET}/crawl.py"),
        *('{"after_cursor": cursor} if', '{"next_cursor": cursor} if'),
        f"{CRAWL_TESTS}::test_a_crawl_walks_all_pages_searches_and_reads_books",
    ),
    Quirk(
        *("the last page names no cursor", f"{POLYMARKET}/crawl.py"),
        *("if page is None or page.cursor is None or page.is_over:", "if page is None or page.is_over:"),
        f"{CRAWL_TESTS}::test_a_crawl_walks_all_pages_searches_and_reads_books",
    ),
    Quirk(
        *("a page has a hundred rows at most", f"{POLYMARKET}/crawl.py"),
        *(
            "if page is None or page.cursor is None or page.is_over:",
            "if page is None or page.cursor is None or page.is_over or len(page.events) < PAGE_SIZE:",
        ),
        f"{CRAWL_TESTS}::test_a_crawl_walks_all_pages_searches_and_reads_books",
    ),
    Quirk(
        *("fields of an order are in camel case", f"{POLYMARKET}/crawl.py"),
        *('"order": "closedTime"', '"order": "closed_time"'),
        f"{CRAWL_TESTS}::test_a_crawl_walks_all_pages_searches_and_reads_books",
    ),
    Quirk(
        *("the best price of a book is the last", f"{POLYMARKET}/wire.py"),
        *('f"{max(bids)[0].normalize():f}" if bids', 'f"{bids[0][0].normalize():f}" if bids'),
        f"{WIRE_TESTS}::test_8_the_best_price_of_a_book_is_found_at_either_end",
    ),
    Quirk(
        *("a midpoint has two names", f"{POLYMARKET}/markets.py"),
        *('"mid": book.mid, ', ""),
        f"{CRAWL_TESTS}::test_9_midpoints_are_made_of_books_and_asked_of_nobody",
    ),
    Quirk(
        *("1m is a month", f"{POLYMARKET}/crawl.py"),
        *(
            "**{name: str(at) for name, at in ends.items()}, ",
            '"interval": "1m", ',
        ),
        f"{CRAWL_TESTS}::test_10_a_history_is_asked_for_by_its_ends",
    ),
    Quirk(
        *("a history ends with a point of now", f"{POLYMARKET}/wire.py"),
        *("and 0 <= price <= 1 and at * SECOND <= until:", "and 0 <= price <= 1:"),
        f"{WIRE_TESTS}::test_10_the_point_of_now_at_the_end_of_a_history_is_left_out",
    ),
    Quirk(
        *("amounts are text or numbers", "src/tapebook/sources/_polling.py"),
        *("not isinstance(value, int | float | str)", "not isinstance(value, int | float)"),
        f"{WIRE_TESTS}::test_11_amounts_are_text_or_numbers",
    ),
    Quirk(
        *("outcomes are not always Yes and No", f"{POLYMARKET}/wire.py"),
        *('_YES = ("yes", "up")', '_YES = ("yes",)'),
        f"{WIRE_TESTS}::test_12_outcomes_are_not_always_yes_and_no_nor_in_that_order",
    ),
    Quirk(
        *("one event comes by crawl and by search", f"{POLYMARKET}/crawl.py"),
        *(
            "self.events |= {event.id: event for event in part.events}",
            "self.events |= {f'{event.id} {self.parts}': event for event in part.events}",
        ),
        f"{CRAWL_TESTS}::test_13_an_event_of_the_list_and_of_a_search_is_one",
    ),
    Quirk(
        *("ids are texts", f"{POLYMARKET}/wire.py"),
        *("found = str(value) if isinstance(value, int | str)", "found = value if isinstance(value, int | str)"),
        f"{WIRE_TESTS}::test_14_ids_are_texts",
    ),
    Quirk(
        *("chains share a symbol", f"{DEFILLAMA}/wire.py"),
        *("found.setdefault(row.symbol, row)", "found[row.symbol] = row"),
        f"{LLAMA_TESTS}::test_chains_share_symbols_and_the_largest_is_meant",
    ),
    Quirk(
        *("null and a dash are no symbols", f"{DEFILLAMA}/wire.py"),
        *('_NO_SYMBOL = frozenset(("", "-"))', '_NO_SYMBOL = frozenset(("",))'),
        f"{LLAMA_TESTS}::test_chains_share_symbols_and_the_largest_is_meant",
    ),
    Quirk(
        *("symbols are not always capitals", f"{DEFILLAMA}/wire.py"),
        *("else found.upper()", "else found"),
        f"{LLAMA_TESTS}::test_chains_share_symbols_and_the_largest_is_meant",
    ),
    Quirk(
        *("a perp of a thousand tokens has the token's chain", "src/tapebook/tape/registry.py"),
        *('symbol[1:] if symbol.startswith("k") and symbol[1:2].isupper() else symbol', "symbol"),
        f"{LLAMA_TESTS}::test_a_perp_of_a_thousand_tokens_has_the_chain_of_the_token",
    ),
    Quirk(
        *("exchanges and chains are among the protocols", f"{DEFILLAMA}/wire.py"),
        *('NOT_DEFI = frozenset(("CEX", "Chain"))', "NOT_DEFI = frozenset(())"),
        f"{LLAMA_TESTS}::test_exchanges_and_chains_are_no_protocols_and_parts_are_not_summed",
    ),
    Quirk(
        *("protocols name chains as before", f"{DEFILLAMA}/wire.py"),
        *("NEW_CHAIN_NAMES.get(each, each) for", "each for"),
        f"{LLAMA_TESTS}::test_exchanges_and_chains_are_no_protocols_and_parts_are_not_summed",
    ),
    Quirk(
        *("parts of a protocol's value are not summed", f"{DEFILLAMA}/wire.py"),
        *(
            'number_of(row, "tvl"), text_of(row, "category", 60)',
            'sum(row.get("chainTvls", {}).values()), text_of(row, "category", 60)',
        ),
        f"{LLAMA_TESTS}::test_exchanges_and_chains_are_no_protocols_and_parts_are_not_summed",
    ),
    Quirk(
        *("the value of a protocol may be null", f"{DEFILLAMA}/wire.py"),
        *("if slug and tvl is not None and tvl >= 0 and category", "if slug and category"),
        f"{LLAMA_TESTS}::test_exchanges_and_chains_are_no_protocols_and_parts_are_not_summed",
    ),
    Quirk(
        *("protocols count value twice", f"{DEFILLAMA}/snapshot.py"),
        *("tvl = sum(row.tvl for row in answers.chains)", "tvl = sum(row.tvl for row in answers.protocols)"),
        f"{LLAMA_TESTS}::test_the_global_figure_is_that_of_chains",
    ),
    Quirk(
        *("the chains' own list excludes what counts twice", f"{DEFILLAMA}/snapshot.py"),
        *('f"{api}/v2/chains"', 'f"{api}/chains"'),
        f"{LLAMA_TESTS}::test_paths_of_the_plan",
    ),
    Quirk(
        *("dates are seconds, numbers or text", f"{DEFILLAMA}/wire.py"),
        *("found.append((int(at) * 1_000, tvl))", "found.append((int(at), tvl))"),
        f"{LLAMA_TESTS}::test_dates_are_numbers_or_text_of_seconds",
    ),
    Quirk(
        *("the last day of a history is now", f"{DEFILLAMA}/snapshot.py"),
        *("for at, tvl in history[:-1] if at <= bucket - span]", "for at, tvl in history if at <= bucket]"),
        f"{LLAMA_TESTS}::test_the_global_figure_is_that_of_chains",
    ),
    Quirk(
        *("supply lies under a peg, or another key", f"{DEFILLAMA}/wire.py"),
        *('key = peg if peg in value else next(iter(value), "")', "key = peg"),
        f"{LLAMA_TESTS}::test_supply_lies_under_its_peg_or_any_key_and_may_be_empty_or_bare",
    ),
    Quirk(
        *("a supply may be a bare number", f"{DEFILLAMA}/wire.py"),
        *('return number_of({"bare": value}, "bare")', "return None"),
        f"{LLAMA_TESTS}::test_supply_lies_under_its_peg_or_any_key_and_may_be_empty_or_bare",
    ),
    Quirk(
        *("a supply of before may be unknown", f"{DEFILLAMA}/snapshot.py"),
        *(
            "known = [row for row in answers.stablecoins if row.day_ago is not None]",
            "known = list(answers.stablecoins)",
        ),
        f"{LLAMA_TESTS}::test_the_global_figure_is_that_of_chains",
    ),
    Quirk(
        *("a delisted stablecoin stays in the list", f"{DEFILLAMA}/wire.py"),
        *(' and row.get("delisted") is not True:', ":"),
        f"{LLAMA_TESTS}::test_a_delisted_stablecoin_counts_no_more",
    ),
    Quirk(
        *("charts come unless both words are said", f"{DEFILLAMA}/snapshot.py"),
        *('(("excludeTotalDataChart", "true"), ("excludeTotalDataChartBreakdown", "true"))', "()"),
        f"{LLAMA_TESTS}::test_paths_of_the_plan",
    ),
    Quirk(
        *("a change may be missing", f"{DEFILLAMA}/snapshot.py"),
        *("if change is None and overview.day_before:", "if False:"),
        f"{LLAMA_TESTS}::test_totals_may_be_missing_and_open_interest_counts_venues_once",
    ),
    Quirk(
        *("open interest of front ends repeats that of venues", f"{DEFILLAMA}/snapshot.py"),
        *("counted = [row.day for row in overview.rows if row.category in OPEN_INTEREST]", "counted = [overview.day]"),
        f"{LLAMA_TESTS}::test_totals_may_be_missing_and_open_interest_counts_venues_once",
    ),
    Quirk(
        *("a total may be missing", f"{DEFILLAMA}/wire.py"),
        *("if number and total is not None:", "if number:"),
        f"{LLAMA_TESTS}::test_totals_may_be_missing_and_open_interest_counts_venues_once",
    ),
    Quirk(
        *("fees of a chain are what its blocks cost", f"{DEFILLAMA}/wire.py"),
        *('is_chain=text_of(row, "protocolType", 20) == "chain"', "is_chain=False"),
        f"{LLAMA_TESTS}::test_totals_may_be_missing_and_open_interest_counts_venues_once",
    ),
    Quirk(
        *("fees and revenue are joined by number", f"{DEFILLAMA}/snapshot.py"),
        *("subjects.setdefault(row.id, ", "subjects.setdefault(row.id + name, "),
        f"{LLAMA_TESTS}::test_fees_and_revenue_are_joined_by_the_number_of_the_protocol",
    ),
    Quirk(
        *("errors are plain text or pages", f"{DEFILLAMA}/snapshot.py"),
        *("except ValueError as error:", "except KeyError as error:"),
        f"{LLAMA_TESTS}::test_what_is_no_answer_is_asked_for_again",
    ),
    Quirk(
        *("servers refuse the names of Python's libraries", "src/tapebook/sources/_polling.py"),
        *('_HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; tapebook)", ', "_HEADERS = {"),
        f"{CRAWL_TESTS}::test_a_crawl_walks_all_pages_searches_and_reads_books",
    ),
)


def names(quirk: Quirk) -> str:
    return quirk.name


@pytest.mark.parametrize("quirk", QUIRKS, ids=names)
def test_every_quirk_is_handled_in_one_place_and_has_a_test(quirk: Quirk) -> None:
    assert (ROOT / quirk.file).read_text("utf-8").count(quirk.handled) == 1, quirk.handled
    file, _, name = quirk.test.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE), quirk.test


@pytest.mark.proof
@pytest.mark.parametrize("quirk", QUIRKS, ids=names)
def test_without_its_handling_the_test_of_a_quirk_fails(quirk: Quirk, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src")
    changed = tmp_path / quirk.file
    changed.write_text(changed.read_text("utf-8").replace(quirk.handled, quirk.naive), "utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-o", f"pythonpath={tmp_path}/src {ROOT}", quirk.test]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}/src:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 1, f"nobody noticed: {quirk.name}\n{ran.stdout[-800:]}"
