"""What people and engines read, as files: three packets of the small desk, and the demo's report."""

from collections.abc import Callable
from pathlib import Path

from tapebook.api import app
from tapebook.domain.packet import Packet
from tapebook.lab.replay import rebuild_packet
from tests.replay import desk

Golden = Callable[[str, str], None]


def first_packet(home: Path, wanted: Callable[[Packet], bool]) -> str:
    """The oldest packet that is as wanted, as it was sent."""
    with desk.opened(home) as (rooms, _):
        for run_id in reversed(rooms.book.run_ids("quick-2m.paper", most=1_000)):
            run = rooms.book.run(run_id)
            assert run and run.packet_key
            if wanted(rebuild_packet(rooms, run)):
                return (rooms.archive.get(run.packet_key) or b"").decode() + "\n"
    raise AssertionError("no such packet: give the desk another seed")


def rows(packet: Packet, section: str) -> int:
    """How many rows a section has; none when it is not there."""
    found = packet.section(section)
    return len(found.rows) if found else 0


def test_packet_before_the_first_trade(recorded: Path, golden: Golden) -> None:
    text = first_packet(recorded, lambda packet: rows(packet, "bars") == 20)
    assert "position_side: flat" in text and "Recent trades" not in text
    golden("packet-flat.txt", text)


def test_packet_with_an_open_position(recorded: Path, golden: Golden) -> None:
    text = first_packet(recorded, lambda packet: rows(packet, "open_positions") > 0)
    golden("packet-open.txt", text)


def test_packet_with_closed_trades(recorded: Path, golden: Golden) -> None:
    def wanted(packet: Packet) -> bool:
        return rows(packet, "recent_trades") >= 4 and rows(packet, "open_positions") > 0

    golden("packet-closed.txt", first_packet(recorded, wanted))


def test_report_of_the_demo(shown: tuple[Path, app.DemoReport], golden: Golden) -> None:
    home, report = shown
    golden("demo-report.txt", "\n".join(report.lines()).replace(str(home), "HOME") + "\n")
