"""`weir doctor`: what is wrong, why, and what to change."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from weir_cli.doctor.evidence import Evidence, split
from weir_cli.doctor.examination import examine, throughput, ttft
from weir_cli.doctor.finding import Verdict
from weir_cli.doctor.looking import read_history
from weir_cli.doctor.report import verdict_json, verdict_text
from weir_cli.doctor.tenant import tenant_slowed
from weir_cli.duration_text import duration_text, seconds_of_text
from weir_cli.errors import CommandError
from weir_cli.output import Output

FOUND, CANNOT_LOOK = 1, 2
_DAY_S = 86_400.0

app = typer.Typer()
_Since = Annotated[
    str, typer.Option(metavar="DURATION", help="The time that is asked about, up to now.")
]
_Baseline = Annotated[
    str, typer.Option(metavar="DURATION", help="The time before it to compare with.")
]
_Printed = Annotated[Output, typer.Option("-o", "--output", help="How to print.")]
_StateDir = Annotated[
    Path | None, typer.Option(help="--state-dir of a `weir up`; default: the one that runs.")
]
_Addresses = Annotated[
    list[str] | None,
    typer.Option(
        "--address",
        help="host:port of a gateway's gRPC; its secret in WEIR_ADMIN_SECRET. Several gateways: "
        "once for each.",
    ),
]


@app.callback(invoke_without_command=True)
def _group(
    context: typer.Context,
    since: _Since = "2m",
    baseline: _Baseline = "30m",
    output: _Printed = Output.TEXT,
    state_dir: _StateDir = None,
    address: _Addresses = None,
) -> None:
    """Say what is wrong with a running deployment, why, and what to change.

    Compares the time that is asked about with the time before. Looks for faults of parts, for a
    fallen throughput, later first tokens and requests refused by limits; what explains most comes
    first. Options come before the name of a single diagnosis.

    Exit status: 0 healthy, 1 something was found, 2 could not look.
    """
    context.obj = (
        seconds_of_text(since),
        seconds_of_text(baseline),
        output,
        state_dir,
        address,
    )
    if not context.invoked_subcommand:
        _run(context, examine)


@app.command("throughput")
def of_throughput(context: typer.Context) -> None:
    """Say why fewer tokens come than before."""
    _run(context, throughput)


@app.command("ttft")
def of_ttft(context: typer.Context) -> None:
    """Say why the first token comes later than before."""
    _run(context, ttft)


@app.command("tenant")
def of_tenant(
    context: typer.Context,
    tenant: Annotated[str, typer.Argument(help="Who is slow.")],
    against: Annotated[
        str, typer.Option(help="The tenant that it accuses; default: whoever it is.")
    ] = "",
) -> None:
    """Say whether another tenant slows one, and what helps: weight, caps, or a pool of its own."""

    def check(evidence: Evidence) -> Verdict:
        verdict = Verdict()
        for model in evidence.of(tenant=tenant).models():
            verdict.add(tenant_slowed(evidence.of(model=model), tenant, against))
        if not evidence.of(tenant=tenant).models():
            verdict.notes.append(f"not enough requests to tell: none of tenant {tenant} was seen")
        return verdict

    _run(context, check)


def _run(context: typer.Context, check: Callable[[Evidence], Verdict]) -> None:
    since, baseline, output, state_dir, addresses = context.obj
    try:
        _check_windows(since, baseline)
        samples = read_history(addresses or (), state_dir, since + baseline)
    except CommandError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(CANNOT_LOOK) from None
    evidence = split(samples, since, baseline)
    looked_at = (
        f"looked at {duration_text(evidence.recent.seconds)} up to now and at "
        f"{duration_text(evidence.baseline.seconds)} before"
    )
    verdict = check(evidence)
    tell = verdict_json if output is Output.JSON else verdict_text
    print(tell(verdict, looked_at))
    if verdict.findings:
        raise typer.Exit(FOUND)


def _check_windows(since: float, baseline: float) -> None:
    """Raises CommandError."""
    for name, seconds in (("--since", since), ("--baseline", baseline)):
        if seconds < 1:
            raise CommandError(f"{name} is {seconds:g} s; it must be 1 s or more")
    if since + baseline > _DAY_S:
        raise CommandError(
            f"--since and --baseline are {since + baseline:g} s together; the history keeps "
            f"{_DAY_S:g} s"
        )
