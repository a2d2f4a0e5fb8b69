"""`weir models`: the models on this machine."""

import asyncio

import typer

from weir_cli.stack.default_model import fetch_default_model

app = typer.Typer(help="Fetch models.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keeps `pull` a subcommand while it is the only one."""


@app.command()
def pull() -> None:
    """Fetch and convert the default model (93 MB down, 540 MB on disk); print its folder."""
    print(asyncio.run(fetch_default_model(print)))
