"""`weir doctor`: what is wrong, why, and what to change."""

import sys
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.examination import examine, throughput, ttft
from weir_cli.doctor.finding import Verdict
from weir_cli.doctor.known_tenants import check_tenants
from weir_cli.doctor.looking import DAY_S, read_history
from weir_cli.doctor.report import verdict_json, verdict_text
from weir_cli.doctor.splitting import looked_at, split
from weir_cli.doctor.stretch import Stretch, stretch
from weir_cli.doctor.tenant import of_tenant
from weir_cli.errors import CommandError
from weir_cli.output import Output

FOUND, CANNOT_LOOK = 1, 2

_Since = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="The time that is asked about: a length up to now, a moment in ISO 8601 (without a "
        "zone UTC), or two with a / between.",
    ),
]
_Baseline = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="The time to compare with: a length before --since, a moment, or two with a / "
        "between, such as an hour of this morning.",
    ),
]
_Printed = Annotated[Output, typer.Option("-o", "--output", help="How to print.")]
_StateDir = Annotated[
    Path | None,
    typer.Option(
        envvar="WEIR_STATE_DIR", help="--state-dir of a `weir up`; default: the one that runs."
    ),
]
_Addresses = Annotated[
    list[str] | None,
    typer.Option(
        "--address",
        help="host:port of a gateway's gRPC; its secret in WEIR_ADMIN_SECRET. Several gateways: "
        "once for each.",
    ),
]


class What(StrEnum):
    """Which diagnosis."""

    ALL = "all"
    THROUGHPUT = "throughput"
    TTFT = "ttft"
    TENANT = "tenant"


def doctor(
    what: Annotated[What, typer.Argument(help="Which diagnosis.")] = What.ALL,
    tenant: Annotated[
        str, typer.Argument(help="With `tenant`: who is slow.", show_default=False)
    ] = "",
    against: Annotated[
        str,
        typer.Option(help="With `tenant`: whom it accuses; default: whoever it is."),
    ] = "",
    since: _Since = "2m",
    baseline: _Baseline = "30m",
    output: _Printed = Output.TEXT,
    state_dir: _StateDir = None,
    address: _Addresses = None,
) -> None:
    """Say what is wrong with a running deployment, why, and what to change.

    Compares the time that is asked about with the time before. `throughput` says why fewer
    tokens come, `ttft` why the first token comes later, `tenant` whether another tenant slows one
    and what helps; `all` also looks for faults of parts and for requests refused by limits. What
    explains most comes first.

    Exit status: 0 healthy, 1 something was found, 2 could not look.
    """
    try:
        check = _check(what, tenant, against)
        recent, before = stretch("--since", since), stretch("--baseline", baseline)
        samples = read_history(address or (), state_dir, _reach(recent, before, time.time()))
        evidence = split(samples, recent, before)
        named = {"TENANT": tenant, "--against": against}
        check_tenants(evidence, named, (address or [""])[0], state_dir)
    except CommandError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(CANNOT_LOOK) from None
    verdict = check(evidence)
    tell = verdict_json if output is Output.JSON else verdict_text
    print(tell(verdict, looked_at(evidence)))
    if verdict.findings:
        raise typer.Exit(FOUND)


def _check(what: What, tenant: str, against: str) -> Callable[[Evidence], Verdict]:
    """The diagnosis. Raises CommandError."""
    if what is What.TENANT:
        if not tenant:
            raise CommandError("whose slowness? give its id: weir doctor tenant ID")
        if tenant == against:
            raise CommandError(f"--against is {against!r}, who complains; name another tenant")
        return lambda evidence: of_tenant(evidence, tenant, against)
    if tenant or against:
        raise CommandError("a tenant goes with `weir doctor tenant`")
    return {What.ALL: examine, What.THROUGHPUT: throughput, What.TTFT: ttft}[what]


def _reach(since: Stretch, baseline: Stretch, now: float) -> float:
    """Seconds of the past that are needed. Raises CommandError."""
    begin = since.begin or now - since.seconds
    if begin >= now:
        raise CommandError(f"--since is {since.told}, which is yet to come")
    if baseline.has_moments:
        if baseline.begin >= begin:
            raise CommandError(f"--baseline is {baseline.told}; it must begin before --since")
        begin = baseline.begin
    else:
        begin -= baseline.seconds
    if now - begin > DAY_S:
        raise CommandError(
            f"--since {since.told} and --baseline {baseline.told} reach {now - begin:.0f} s back; "
            f"the history keeps {DAY_S:g} s"
        )
    return now - begin
