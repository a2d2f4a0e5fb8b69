"""Options of the commands that ask a ratelimiter about somebody's account, each said once."""

from pathlib import Path
from typing import Annotated

import typer

from weir_cli.output import Output

Tenant = Annotated[str, typer.Argument(help="Tenant whose account it is.")]
User = Annotated[str, typer.Option(help="One of its users; limits of that user apply too.")]
Key = Annotated[str, typer.Option(help="Public id of one of its keys; its limits apply too.")]
Model = Annotated[str, typer.Option(help="Name or alias of a model; its limits apply too.")]
Printed = Annotated[Output, typer.Option("-o", "--output", help="How to print.")]
OfStateDir = Annotated[
    Path | None,
    typer.Option(
        envvar="WEIR_STATE_DIR", help="--state-dir of a `weir up`; default: the one that runs."
    ),
]
Address = Annotated[
    str, typer.Option(help="host:port of a ratelimiter; its secret in WEIR_CLUSTER_TOKEN.")
]
