"""`weir simulate`: the scheduler's own code on a virtual clock."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from weir_cli import simulation_setup
from weir_cli.errors import CommandError
from weir_cli.simulation_cost import cost_model as cost_model_of
from weir_cli.simulation_text import comparison_text, run_text
from weir_sim.report.plots import PlotsUnavailable, Run, draw
from weir_sim.report.statistics import RunNumbers, numbers
from weir_sim.setup import Setup, WorkerSpec
from weir_sim.simulation import simulate as simulate_run
from weir_sim.traces.tenants import parse_mapping
from weir_sim.traces.trace_error import TraceError
from weir_sim.traces.workload_options import WorkloadOptions
from weir_sim.workload import Workload

_MOST_WORKERS = 10_000


class Report(StrEnum):
    """How numbers are printed."""

    TABLE = "table"
    JSON = "json"


class Plot(StrEnum):
    """Formats of plots."""

    PNG = "png"
    SVG = "svg"


def simulate(
    trace: Annotated[
        str, typer.Option(help="A published trace's file, or a preset such as azure-conv.")
    ] = "arena",
    format_: Annotated[
        str, typer.Option("--format", help="Format of the file; default: by its first line.")
    ] = "",
    limit: Annotated[int, typer.Option(help="Requests at most; 0: all of a file.")] = 0,
    rate: Annotated[
        float, typer.Option(help="Poisson arrivals a second instead of the trace's own.")
    ] = 0.0,
    rate_scale: Annotated[float, typer.Option(help="Arrivals so many times as fast.")] = 1.0,
    from_: Annotated[float, typer.Option("--from", help="Seconds of the trace to skip.")] = 0.0,
    until: Annotated[float | None, typer.Option(help="Second of the trace to stop before.")] = None,
    tenants: Annotated[
        str, typer.Option(help="Who asks: client (the trace's own), hash:N or round-robin:N.")
    ] = "client",
    weights: Annotated[str, typer.Option(help="Weights of tenants, such as t0=3,t1=1.")] = "",
    batch: Annotated[
        str, typer.Option(help="Tenants whose requests are of the class batch; * for all.")
    ] = "",
    policy: Annotated[
        str, typer.Option(help="Order within a queue: fifo, priority, shortest_remaining.")
    ] = "fifo",
    isolation: Annotated[
        str, typer.Option(help="Between tenants: shared, weighted or locality.")
    ] = "weighted",
    quantum: Annotated[
        int, typer.Option(help="Tokens within which locality may choose.", min=1)
    ] = 16_384,
    compare: Annotated[
        str, typer.Option(help="More ways beside it, such as shared,weighted/shortest_remaining.")
    ] = "",
    workers: Annotated[int, typer.Option(help="Workers.", min=1, max=_MOST_WORKERS)] = 1,
    cost_model: Annotated[
        str, typer.Option(help="Time of steps: a10g, h100, cpu, linear:MS,..., or a table.")
    ] = "a10g",
    kv_blocks: Annotated[int, typer.Option(help="KV blocks of 16 tokens a worker.", min=1)] = 625,
    max_batch_size: Annotated[int, typer.Option(help="Requests at once a worker.", min=1)] = 256,
    max_step_tokens: Annotated[int, typer.Option(help="Tokens of a step.", min=1)] = 2_048,
    report_delay: Annotated[
        float, typer.Option(help="Seconds by which workers' reports are late.", min=0)
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Of everything drawn.", min=0)] = 0,
    plot: Annotated[Plot | None, typer.Option(help="Draw plots into --out.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for plots and numbers.json.")] = None,
    output: Annotated[Report, typer.Option("-o", "--output", help="How to print.")] = Report.TABLE,
) -> None:
    """Run a trace, or a load like it, through the scheduler on a virtual clock.

    The same arguments give the same numbers. Without a trace the load is generated.
    """
    ways = simulation_setup.variants(isolation, policy, compare)
    if plot is not None and out is None:
        raise CommandError("--plot needs --out, the folder to draw into")
    load = _load(
        trace,
        format_,
        lambda: WorkloadOptions(
            limit=limit,
            rate_scale=rate_scale,
            rate_rps=rate,
            from_s=from_,
            until_s=float("inf") if until is None else until,
            seed=seed,
            tenants=parse_mapping(tenants),
            weights=simulation_setup.weights_of(weights),
            batch=frozenset(part.strip() for part in batch.split(",") if part),
        ),
    )
    base = Setup(
        workers=(_worker(kv_blocks, max_batch_size, max_step_tokens),) * workers,
        cost=cost_model_of(cost_model),
        seed=seed,
        report_delay_s=report_delay,
    )
    setups = simulation_setup.setups(base, ways, quantum)
    runs = [_run(way.name, load, setup) for way, setup in zip(ways, setups, strict=True)]
    sums = [numbers(run.name, run.workload, run.setup, run.outcome) for run in runs]
    _print(sums, output)
    if out is not None:
        _write(sums, runs, out, plot)


def _load(trace: str, format_name: str, options: Callable[[], WorkloadOptions]) -> Workload:
    try:
        return simulation_setup.workload(trace, format_name, options())
    except TraceError as error:
        raise CommandError(str(error)) from None


def _worker(kv_blocks: int, max_batch_size: int, max_step_tokens: int) -> WorkerSpec:
    return WorkerSpec(
        kv_blocks=kv_blocks,
        max_batch_size=max_batch_size,
        max_concurrent_requests=max_batch_size,
        max_step_tokens=max_step_tokens,
    )


def _run(name: str, load: Workload, setup: Setup) -> Run:
    with _bar(f"{load.name} {name}") as tell:
        return Run(name, load, setup, simulate_run(load, setup, tell))


@contextmanager
def _bar(title: str) -> Iterator[Callable[[float], None]]:
    """A progress bar on stderr, if a person looks at it."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal,
        transient=True,
    ) as progress:  # fmt: skip
        task = progress.add_task(title, total=1.0)
        yield lambda share: progress.update(task, completed=share)


def _print(sums: list[RunNumbers], output: Report) -> None:
    if output is Report.JSON:
        print(_json(sums))
        return
    print("\n\n".join(run_text(run) for run in sums))
    if len(sums) > 1:
        print(f"\n{comparison_text(sums)}")


def _json(sums: list[RunNumbers]) -> str:
    return json.dumps({"runs": [run.as_json() for run in sums]}, indent=2)


def _write(sums: list[RunNumbers], runs: list[Run], out: Path, plot: Plot | None) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "numbers.json").write_text(_json(sums) + "\n")
        if plot is not None:
            draw(runs, out, plot.value)
    except PlotsUnavailable as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"--out {out} cannot be written: {error}") from None
