"""A process that is killed between the rows of an hour and its mark or checksum leaves a whole tape that goes on."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_killed_before_each_statement_that_writes_the_tape_is_whole_and_goes_on(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.tape.crash_hours", str(tmp_path)]
    said = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr
    acts, faults = json.loads(said.stdout)
    assert not faults
    # What lies between two of these may be the last thing a process does.
    for word in ("tape_symbols", "hyperliquid_candles", "tape_unrolled_hours", "tape_seals", "tape_commits"):
        assert any(act.startswith(f"INSERT INTO {word}") for act in acts), word
    assert any(act.startswith("DELETE FROM tape_unrolled_hours") for act in acts) and "COMMIT" in acts
