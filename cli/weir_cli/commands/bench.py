"""`weir bench`: a load on a server, whether it keeps up or not."""

import json
import math
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from weir_cli.errors import CommandError
from weir_cli.output import Output


class Plot(StrEnum):
    """Image formats."""

    PNG = "png"
    SVG = "svg"


class Door(StrEnum):
    """Where prompts go."""

    CHAT = "chat"
    COMPLETIONS = "completions"


def bench(
    url: Annotated[
        str,
        typer.Option(
            envvar="WEIR_URL",
            help="An OpenAI-compatible server, http://host:port; or host:port of a gateway's "
            "gRPC door.",
        ),
    ] = "http://127.0.0.1:8000",
    key: Annotated[
        list[str] | None,
        typer.Option(
            envvar="WEIR_API_KEY",
            show_default=False,
            help="API key; several as TENANT=SECRET, which take turns.",
        ),
    ] = None,
    model: Annotated[
        str, typer.Option(envvar="WEIR_MODEL", help="Its name; empty: the first one served.")
    ] = "",
    endpoint: Annotated[Door, typer.Option(help="Of the server.")] = Door.CHAT,
    request_rate: Annotated[
        float, typer.Option(help="Requests a second; inf: all at once.", show_default="inf")
    ] = math.inf,
    burstiness: Annotated[
        float,
        typer.Option(help="Of the gaps: 1 Poisson, below 1 bursts, above 1 evener, inf constant."),
    ] = 1.0,
    ramp_up: Annotated[
        float, typer.Option(min=0, help="Seconds in which the rate rises from 0.")
    ] = 0.0,
    max_concurrency: Annotated[
        int, typer.Option(min=0, help="Requests under way at most; 0: no bound.")
    ] = 0,
    requests: Annotated[int, typer.Option(min=0, help="How many; 0: by --duration, else 100.")] = 0,
    duration: Annotated[
        float, typer.Option(min=0.001, help="Seconds in which requests are sent.")
    ] = math.inf,
    input_len: Annotated[
        str,
        typer.Option(
            "--input-len", help="Prompt tokens: N, normal:MEAN:DEVIATION or uniform:LEAST:MOST."
        ),
    ] = "128",
    output_len: Annotated[str, typer.Option("--output-len", help="Answer tokens, likewise.")] = (
        "64"
    ),
    trace: Annotated[
        str, typer.Option(help="Arrivals and lengths of a trace file or a preset in their place.")
    ] = "",
    format_: Annotated[str, typer.Option("--format", help="Of the file, if not seen.")] = "",
    rate_scale: Annotated[float, typer.Option(help="The trace, so many times as fast.")] = 1.0,
    tokenizer: Annotated[
        Path | None,
        typer.Option(exists=True, help="tokenizer.json, or a model's folder: exact lengths."),
    ] = None,
    ids: Annotated[
        str, typer.Option(help="Prompts of token ids from LEAST:END, such as 100:40000.")
    ] = "",
    warmups: Annotated[int, typer.Option(min=0, help="Requests before, not counted.")] = 1,
    goodput: Annotated[
        list[str] | None,
        typer.Option(help="Targets of a good answer, ms: ttft:500, tpot:50, itl:50, e2e:9000."),
    ] = None,
    percentiles: Annotated[str, typer.Option(help="That are told.")] = "50,90,95,99",
    ignore_eos: Annotated[
        bool, typer.Option(help="Ask for exactly the wanted tokens (vLLM's field, and ours).")
    ] = True,
    temperature: Annotated[float, typer.Option(min=0, help="Of sampling.")] = 0.0,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds of a whole answer.")] = 600.0,
    seed: Annotated[int, typer.Option(min=0, help="Of everything drawn.")] = 0,
    save: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Folder for numbers, requests, plots and a page."),
    ] = None,
    plot: Annotated[Plot, typer.Option(help="Form of the plots.")] = Plot.SVG,
    ca: Annotated[
        Path | None, typer.Option(envvar="WEIR_TLS_CA", dir_okay=False, help="PEM of the CA.")
    ] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print.")] = Output.TEXT,
) -> None:
    """Send a load to a server and tell how it did.

    Requests are sent at their own moments, whatever became of those before, and latency counts
    from the intended moment. The same options and seed send the same load.
    """
    # Here, so that no other command waits for numpy.
    from weir_cli.load.bench_run import run_bench
    from weir_cli.load.goodput import parse_targets
    from weir_cli.load.http_target import Endpoint
    from weir_cli.load.load_options import LoadOptions
    from weir_cli.load.saved_report import SavedReport

    options = LoadOptions(
        url=url,
        keys=key or [""],
        model=model,
        endpoint=Endpoint(endpoint.value),
        rate=request_rate,
        burstiness=burstiness,
        ramp_up_s=ramp_up,
        most_at_once=max_concurrency,
        requests=requests,
        duration_s=duration,
        inputs=input_len,
        outputs=output_len,
        trace=trace,
        format_name=format_,
        rate_scale=rate_scale,
        tokenizer=tokenizer,
        ids=ids,
        seed=seed,
        warmups=warmups,
        timeout_s=timeout,
        ignore_eos=ignore_eos,
        temperature=temperature,
        ca=ca,
    )
    result = run_bench(options, parse_targets(goodput or ()), _percentiles(percentiles))
    print(json.dumps(result.numbers(), indent=2) if output is Output.JSON else result.text())
    if save is not None:
        report = SavedReport(result.title, result.text(), result.numbers())
        missing = report.write(save, result.offered, plot.value)
        print(
            f"\nwritten to {save}{f' without plots: {missing}' if missing else ''}", file=sys.stderr
        )
    if not result.figures.completed:
        raise CommandError("no request was answered in full")


def _percentiles(text: str) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or not all(0 <= value <= 100 for value in values):
        raise CommandError(
            f"--percentiles is {text!r}; it must be numbers from 0 to 100, by commas"
        )
    return values
