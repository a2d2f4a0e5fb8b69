"""Runs what `weir simulate` asks for."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from weir_cli import simulation_setup
from weir_cli.errors import CommandError
from weir_cli.simulation_cost import cost_model
from weir_cli.simulation_text import comparison_text, run_text
from weir_sim.report.canvas import PlotsUnavailable
from weir_sim.report.plots import Run, draw
from weir_sim.report.statistics import RunNumbers, numbers
from weir_sim.setup import Setup, WorkerSpec
from weir_sim.simulation import simulate
from weir_sim.traces.tenants import parse_mapping
from weir_sim.traces.trace_error import TraceError
from weir_sim.traces.workload_options import WorkloadOptions
from weir_sim.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Question:
    """The options of the command, as they were given; see `weir simulate --help`."""

    trace: str
    format_name: str
    limit: int
    rate_rps: float
    rate_scale: float
    from_s: float
    until_s: float
    tenants: str
    weights: str
    batch: str
    isolation: str
    policy: str
    quantum_tokens: int
    compare: str
    workers: int
    cost_model: str
    kv_blocks: int
    max_batch_size: int
    max_step_tokens: int
    report_delay_s: float
    seed: int


@dataclass(frozen=True)
class Answer:
    """The runs, the first being that of the options."""

    runs: tuple[Run, ...]
    sums: tuple[RunNumbers, ...]

    def text(self) -> str:
        """Tables for a person."""
        parts = [run_text(run) for run in self.sums]
        if len(parts) > 1:
            parts.append(comparison_text(self.sums))
        return "\n\n".join(parts)

    def json(self) -> str:
        """Everything for a program."""
        return json.dumps({"runs": [run.as_json() for run in self.sums]}, indent=2)

    def write(self, folder: Path, plots: str | None) -> None:
        """Writes numbers.json and the plots, png or svg. Raises CommandError."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "numbers.json").write_text(self.json() + "\n")
            if plots is not None:
                draw(self.runs, folder, plots)
        except PlotsUnavailable as error:
            raise CommandError(str(error)) from None
        except OSError as error:
            raise CommandError(f"--out {folder} cannot be written: {error}") from None


def answer(question: Question) -> Answer:
    """Simulates. Raises CommandError for what cannot be run."""
    ways = simulation_setup.variants(question.isolation, question.policy, question.compare)
    load = _load(question)
    base = Setup(
        workers=(_worker(question),) * question.workers,
        cost=cost_model(question.cost_model),
        seed=question.seed,
        report_delay_s=question.report_delay_s,
    )
    setups = simulation_setup.setups(base, ways, question.quantum_tokens)
    runs = [_run(way.name, load, setup) for way, setup in zip(ways, setups, strict=True)]
    sums = [numbers(run.name, run.workload, run.setup, run.outcome) for run in runs]
    return Answer(tuple(runs), tuple(sums))


def _load(question: Question) -> Workload:
    try:
        options = WorkloadOptions(
            limit=question.limit,
            rate_scale=question.rate_scale,
            rate_rps=question.rate_rps,
            from_s=question.from_s,
            until_s=question.until_s,
            seed=question.seed,
            tenants=parse_mapping(question.tenants),
            weights=simulation_setup.weights_of(question.weights),
            batch=frozenset(part.strip() for part in question.batch.split(",") if part),
        )
    except TraceError as error:
        raise CommandError(str(error)) from None
    load = simulation_setup.workload(question.trace, question.format_name, options)
    simulation_setup.check_weighted(load, options.weights)
    return load


def _worker(question: Question) -> WorkerSpec:
    return WorkerSpec(
        kv_blocks=question.kv_blocks,
        max_batch_size=question.max_batch_size,
        max_concurrent_requests=question.max_batch_size,
        max_step_tokens=question.max_step_tokens,
    )


def _run(name: str, load: Workload, setup: Setup) -> Run:
    with _bar(f"{load.name} {name}") as tell:
        return Run(name, load, setup, simulate(load, setup, tell))


@contextmanager
def _bar(title: str) -> Iterator[Callable[[float], None]]:
    """A progress bar on stderr, if a person looks at it."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda share: progress.update(task, completed=share)
