"""`weir`: the commands and how their failures end."""

import sys
from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from weir_cli.commands import (
    admin,
    batches,
    bench,
    calibrate,
    chat,
    cluster,
    doctor,
    explain,
    jobs,
    keys,
    ledger,
    limits,
    models,
    plans,
    pools,
    prefixes,
    sessions,
    simulate,
    tenants,
    tls,
    top,
    up,
    users,
    webhooks,
    workers,
)
from weir_cli.errors import CommandError


def _version() -> str:
    return f"tokenweir {installed_version('tokenweir')}"


def _print_version(wanted: bool) -> None:
    if wanted:
        print(_version())
        raise typer.Exit


app = typer.Typer(
    name="weir",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up")(up.up)
app.command("bench")(bench.bench)
app.command("calibrate")(calibrate.calibrate)
app.command("chat")(chat.chat)
app.command("doctor")(doctor.doctor)
app.command("explain")(explain.explain)
app.command("simulate")(simulate.simulate)
app.command("top")(top.top)
app.add_typer(admin.app, name="admin")
app.add_typer(batches.app, name="batches")
app.add_typer(cluster.app, name="cluster")
app.add_typer(jobs.app, name="jobs")
app.add_typer(keys.app, name="keys")
app.add_typer(ledger.app, name="ledger")
app.add_typer(limits.app, name="limits")
app.add_typer(models.app, name="models")
app.add_typer(plans.app, name="plans")
app.add_typer(pools.app, name="pools")
app.add_typer(prefixes.app, name="prefixes")
app.add_typer(sessions.app, name="sessions")
app.add_typer(tenants.app, name="tenants")
app.add_typer(tls.app, name="tls")
app.add_typer(users.app, name="users")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(workers.app, name="workers")


@app.callback()
def options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """Run Tokenweir, talk to it, and make its keys."""


@app.command()
def version() -> None:
    """Print the version."""
    print(_version())


def main() -> None:
    """Runs a command; a failure is one line on stderr and exit status 1."""
    try:
        app()
    except CommandError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
