"""`make bench`: runs the benchmarks named in ARGS, or all, prints their figures and stores them in docs/figures/."""

import importlib
import pkgutil
import platform
import sys
from pathlib import Path

import msgspec

import bench
from bench.figure import Figure, line

NOT_BENCHMARKS = {"__main__", "figure"}
FIGURES = Path(__file__).parent.parent / "docs" / "figures"


def main(wanted: list[str]) -> int:
    """Runs benchmarks by name."""
    modules = [found.name for found in pkgutil.iter_modules(bench.__path__)]
    known = sorted(name.replace("_", "-") for name in modules if name not in NOT_BENCHMARKS)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"error: no benchmark called {unknown[0]!r}; choose from: {', '.join(known)}", file=sys.stderr)
        return 2
    for name in wanted or known:
        print(f"{name}:", flush=True)
        figures: list[Figure] = importlib.import_module(f"bench.{name.replace('-', '_')}").run()
        print("\n".join(f"  {line(figure)}" for figure in figures), flush=True)
        _store(name, figures)
    return 0


def _store(name: str, figures: list[Figure]) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    content = msgspec.json.encode({"machine": machine, "figures": figures})
    (FIGURES / f"{name}.json").write_bytes(msgspec.json.format(content, indent=1) + b"\n")


sys.exit(main(sys.argv[1:]))
