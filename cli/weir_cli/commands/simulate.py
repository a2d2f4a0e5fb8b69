"""`weir simulate`: the scheduler's own code on a virtual clock."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from weir_cli.errors import CommandError

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
    workers: Annotated[int, typer.Option(help="Workers.", min=1, max=_MOST_WORKERS)] = 2,
    cost_model: Annotated[
        str, typer.Option(help="Time of steps: a10g, h100, cpu, linear:MS,..., or a table.")
    ] = "a10g",
    kv_blocks: Annotated[int, typer.Option(help="KV blocks of 16 tokens a worker.", min=1)] = 625,
    max_batch_size: Annotated[int, typer.Option(help="Requests at once a worker.", min=1)] = 256,
    max_step_tokens: Annotated[int, typer.Option(help="Tokens of a step.", min=1)] = 2_048,
    report_delay: Annotated[
        float, typer.Option(help="Seconds by which workers' reports are late.", min=0, max=3600)
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Of everything drawn.", min=0)] = 0,
    plot: Annotated[Plot | None, typer.Option(help="Draw plots into --out.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for plots and numbers.json.")] = None,
    output: Annotated[Report, typer.Option("-o", "--output", help="How to print.")] = Report.TABLE,
) -> None:
    """Run a trace, or a load like it, through the scheduler on a virtual clock.

    The same arguments give the same numbers. Without a trace the load is generated.
    """
    # Here, so that no other command waits for numpy.
    from weir_cli.simulation_run import Question, answer

    if plot is not None and out is None:
        raise CommandError("--plot needs --out, the folder to draw into")
    question = Question(
        trace=trace,
        format_name=format_,
        limit=limit,
        rate_rps=rate,
        rate_scale=rate_scale,
        from_s=from_,
        until_s=float("inf") if until is None else until,
        tenants=tenants,
        weights=weights,
        batch=batch,
        isolation=isolation,
        policy=policy,
        quantum_tokens=quantum,
        compare=compare,
        workers=workers,
        cost_model=cost_model,
        kv_blocks=kv_blocks,
        max_batch_size=max_batch_size,
        max_step_tokens=max_step_tokens,
        report_delay_s=report_delay,
        seed=seed,
    )
    result = answer(question)
    print(result.json() if output is Report.JSON else result.text())
    if out is not None:
        result.write(out, None if plot is None else plot.value)
