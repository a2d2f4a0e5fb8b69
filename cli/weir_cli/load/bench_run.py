"""Runs what `weir bench` asks for."""

import asyncio
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from weir_cli.errors import CommandError
from weir_cli.load.figures import LoadFigures, load_figures
from weir_cli.load.goodput import Targets
from weir_cli.load.load_options import LoadOptions
from weir_cli.load.open_loop import Offered, OpenLoop
from weir_cli.load.open_loop import Progress as Tell
from weir_cli.load.open_target import first_model, open_target
from weir_cli.load.report_text import report_text
from weir_cli.load.target import Asked


@dataclass(frozen=True)
class BenchResult:
    """A load that was sent, and its sums."""

    title: str
    offered: Offered
    targets: Targets
    figures: LoadFigures
    tenants: dict[str, LoadFigures]

    def text(self) -> str:
        """For a person."""
        return report_text(self.figures, self.targets, self.tenants, self.title)

    def numbers(self) -> dict[str, Any]:
        """For a program; times in milliseconds."""
        return {
            "title": self.title,
            "goodput_targets_ms": self.targets.given,
            **self.figures.as_json(),
            "tenants": {name: one.as_json() for name, one in self.tenants.items()},
        }


def run_bench(options: LoadOptions, targets: Targets, percentiles: Sequence[float]) -> BenchResult:
    """Sends the load. Raises CommandError when it cannot begin."""
    return asyncio.run(_run(options, targets, percentiles))


async def _run(options: LoadOptions, targets: Targets, percentiles: Sequence[float]) -> BenchResult:
    keys = options.tenants()
    load = options.plan()
    prompts = options.prompts()
    model = options.model or await first_model(options.url, next(iter(keys.values())), options.ca)
    asked = Asked(model, keys, options.ignore_eos, options.temperature)
    target = open_target(options.url, options.endpoint, asked, options.timeout_s, options.ca)
    try:
        loop = OpenLoop(target, prompts, options.most_at_once)
        failure = await loop.warm_up(options.warmups, load[0])
        if failure is not None:
            raise CommandError(f"{options.url}: a warm-up failed: {failure.kind} {failure.message}")
        with _bar(None if options.for_a_while else len(load)) as tell:
            stop_s = options.duration_s if options.for_a_while else math.inf
            offered = await loop.run(load, tell, stop_s)
    finally:
        await target.close()
    return BenchResult(
        title=f"{len(offered.exchanges)} requests to {model} at {options.url}",
        offered=offered,
        targets=targets,
        figures=load_figures(offered, targets, percentiles),
        tenants={name: load_figures(offered, targets, percentiles, name) for name in keys},
    )


@contextmanager
def _bar(requests: int | None) -> Iterator[Tell]:
    """A progress bar on stderr, if a person looks at it."""
    console = Console(file=sys.stderr)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    )  # fmt: skip
    hidden = not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, transient=True) as progress:
        task = progress.add_task("requests", total=requests)
        yield lambda ended, of: progress.update(task, completed=ended)
