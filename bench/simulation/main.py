"""`make bench-simulation`: the re-run table R1 to R14 (figures: bench/README.md).

Prints progress on stderr and, as its last line on stdout, one JSON object. Rows whose data is
not under $TRACES run on generated loads and say so, or are null.
"""

import argparse
import importlib
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from bench.samples import say
from bench.simulation.row import Context, NotMeasured
from bench.simulation.scale import decision_figures
from bench.simulation.verdict import thresholds, verdict

ROWS = tuple(f"R{number}" for number in range(1, 15))
_LONGEST_FIRST = ("R7", "R3", "R9", "R5", "R8", "R12", "R11", "R14", "R10", "R13")


def main() -> None:
    """Measures the rows, then what a decision costs, and prints the figures."""
    options = _options()
    begun = time.monotonic()
    rows = _rows(options.rows or list(ROWS), options.jobs, options.quick)
    figures: dict[str, Any] = {
        "rows": {name: rows[name] for name in sorted(rows, key=lambda name: int(name[1:]))},
        "vtc_max_gap_over_2u": _inner(rows, "R1", "gap_over_2u"),
        "hot_prefix_max_over_mean": _inner(rows, "R7", "busiest_over_mean"),
        "decision_us_100": None,
        "decision_us_100000": None,
    }
    if options.rows is None:
        figures |= _attempted("decisions", lambda: decision_figures(options.quick))
    figures["seconds"] = round(time.monotonic() - begun, 1)
    if options.quick:
        figures["quick"] = True
    print(json.dumps(figures))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-simulation")
    parser.add_argument("--rows", type=_names, help="such as R1,R7; default: all")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--quick", action="store_true", help="only see that it runs")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = set(names) - set(ROWS)
    if unknown:
        raise argparse.ArgumentTypeError(f"{sorted(unknown)}; rows are R1 to R14")
    return names


def _rows(names: list[str], jobs: int, quick: bool) -> dict[str, Any]:
    order = sorted(names, key=lambda name: (name not in _LONGEST_FIRST, name))
    order.sort(key=lambda name: _LONGEST_FIRST.index(name) if name in _LONGEST_FIRST else 99)
    results: dict[str, Any] = {}
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        waiting = {pool.submit(measure, name, quick): name for name in order}
        for done in as_completed(waiting):
            name = waiting[done]
            results[name] = done.result()
            say(f"{name}: holds {results[name]['holds']}, {results[name]['why']}")
    return results


def measure(name: str, quick: bool = False) -> dict[str, Any]:
    """One row with its verdict; null figures and the reason where it could not be measured."""
    folder = os.environ.get("TRACES")
    context = Context(Path(folder) if folder else None, quick, lambda text: say(f"{name}: {text}"))
    begun = time.process_time()
    try:
        if name not in thresholds():
            raise NotMeasured("this row is not built")
        module = importlib.import_module(f"bench.simulation.rows.r{int(name[1:]):02}")
        result = verdict(name, module.run(context))
    except NotMeasured as reason:
        result = _null(str(reason))
    except Exception as error:
        result = _null(f"could not be measured: {type(error).__name__}: {error}")
    return result | {"cpu_s": round(time.process_time() - begun, 1)}


def _null(why: str) -> dict[str, Any]:
    return {"holds": None, "figure": None, "control_fails": None, "why": why}


def _inner(rows: dict[str, Any], name: str, figure: str) -> float | None:
    value: float | None = rows.get(name, {}).get("figures", {}).get(figure)
    return value


def _attempted(name: str, measured: Any) -> dict[str, Any]:
    try:
        figures: dict[str, Any] = measured()
    except Exception as error:
        say(f"{name} could not be measured: {type(error).__name__}: {error}")
        return {}
    return figures


if __name__ == "__main__":
    main()
