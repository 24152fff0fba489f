"""Kills `tapebook demo --fast` again and again, at start-up and on its way, until it has ended once by itself."""

import random
import subprocess
import sys
import time
from pathlib import Path

from tapebook.desk.demo import MARKET_MS_PER_SECOND
from tapebook.domain.units import DAY
from tapebook.home import DEMO_START

ROOT = Path(__file__).parents[2]
SEED = 50
SECONDS = 5.0

# Longer than Python takes to begin, most of the time: some are killed before they did anything.
_START_UP_SECONDS = 1.0
# A step of the world takes about a millisecond; a tick takes several.
_WITHIN_A_STEP_SECONDS = 0.02
# Two backtests of a week take about so long.
_BACKTESTS_SECONDS = 2.0


class Storm:
    """One home, and everything that happens to it."""

    def __init__(self, home: Path, *, seed: int = SEED, seconds: float = SECONDS, aged_days: int = 0) -> None:
        words = ["demo", "--fast", "--seed", str(seed), "--seconds", str(seconds), "--home", str(home)]
        words += ["--weeks", str(aged_days / 7)]
        self._command = [sys.executable, "-m", "tests.replay.killable", *words]
        self._start = DEMO_START - aged_days * DAY
        self._end = DEMO_START + int(seconds * MARKET_MS_PER_SECOND)
        self._chance = random.Random(seed)
        self.kills = 0

    def rage(self, *, early: int, late: int, backtests: int = 0) -> None:
        """Kills at random moments of start-up and at random moments of the market, then lets it finish.

        Of an aged demo it also kills the backtests of its past, before the market goes on.
        """
        moments = iter(sorted(self._chance.randrange(self._start, self._end) for _ in range(late)))
        lives = [True] * early + [False] * late
        self._chance.shuffle(lives)
        for killed_early in lives:
            if killed_early:
                self._kill_early()
                continue
            moment = next(moments)
            if moment >= DEMO_START:
                self._kill_backtests(backtests)
                backtests = 0
            self._kill_at(moment)
        self._kill_backtests(backtests)
        self.finish()

    def finish(self) -> None:
        """Lets it run to its end."""
        done = subprocess.run(self._command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    def _kill_early(self) -> None:
        with self._started() as victim:
            time.sleep(self._chance.uniform(0, _START_UP_SECONDS))
            self._kill(victim)

    def _kill_at(self, moment: int) -> None:
        with self._started() as victim:
            assert victim.stdout
            for line in victim.stdout:
                if line.startswith("at ") and int(line[3:]) >= moment:
                    break
            time.sleep(self._chance.uniform(0, _WITHIN_A_STEP_SECONDS))
            self._kill(victim)

    def _kill_backtests(self, times: int) -> None:
        for _ in range(times):
            with self._started() as victim:
                assert victim.stdout
                for line in victim.stdout:
                    if line.startswith("backtest"):
                        break
                time.sleep(self._chance.uniform(0, _BACKTESTS_SECONDS))
                self._kill(victim)

    def _kill(self, victim: "subprocess.Popen[str]") -> None:
        victim.kill()
        said = victim.communicate()[1]
        assert victim.returncode in (0, -9), said
        self.kills += victim.returncode == -9

    def _started(self) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        return subprocess.Popen(self._command, cwd=ROOT, env=environment(), stdout=pipe, stderr=pipe, text=True)


def environment(**more: str) -> dict[str, str]:
    """What a child needs to find the package and the tests, and nothing else."""
    return {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"} | more
