"""`weir`: the commands and how their failures end."""

import sys
from importlib.metadata import version as installed_version

import typer

from weir_cli.commands import chat, explain, keys, ledger, limits, models, up
from weir_cli.errors import CommandError

app = typer.Typer(
    name="weir",
    help="Run Tokenweir, talk to it, and make its keys.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up")(up.up)
app.command("chat")(chat.chat)
app.command("explain")(explain.explain)
app.add_typer(keys.app, name="keys")
app.add_typer(ledger.app, name="ledger")
app.add_typer(limits.app, name="limits")
app.add_typer(models.app, name="models")


@app.command()
def version() -> None:
    """Print the version."""
    print(f"tokenweir {installed_version('tokenweir')}")


def main() -> None:
    """Runs a command; a failure is one line on stderr and exit status 1."""
    try:
        app()
    except CommandError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
