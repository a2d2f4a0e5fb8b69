"""`weir cluster`: limits over everybody, of a stack whose directory is a database."""

from pathlib import Path
from typing import Annotated, Any

import typer

from weir.gateway.v1.admin_service_pb2 import GetClusterLimitsRequest, PutClusterLimitsRequest
from weir_cli.administration import CALL_S, Address, StateDirOption, administer, who
from weir_cli.commands.objects import Expected
from weir_cli.directory_nouns import read_cluster_limits, read_form
from weir_cli.directory_text import Format, Printed, print_forms
from weir_gateway.directory.sql.entry_form import limit_forms

app = typer.Typer(help="What holds for everybody.", no_args_is_help=True)

_COLUMNS = ("id", "resource", "limit", "rate", "burst", "window", "model", "shadow")


@app.callback()
def _group() -> None:
    """Keeps `limits` a command of its own."""


@app.command()
def limits(
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", help="Replace them: YAML or JSON, as `cluster:` of the file."),
    ] = None,
    expect_version: Expected = 0,
    output: Printed = Format.TABLE,
    state_dir: StateDirOption = None,
    address: Address = "",
) -> None:
    """Show the limits over everybody, with -o yaml as -f reads them; or replace them."""
    if file is not None:
        _put(file, expect_version, state_dir, address)
        return
    request = GetClusterLimitsRequest()

    async def ask(stub: Any) -> Any:
        return await stub.GetClusterLimits(request, timeout=CALL_S, metadata=who())

    forms = limit_forms(administer(address, state_dir, ask).limits)
    print_forms(forms if output is Format.TABLE else {"limits": forms}, output, _COLUMNS)


def _put(file: Path, expected: int, state_dir: Path | None, address: str) -> None:
    wanted = read_cluster_limits(read_form(file))
    request = PutClusterLimitsRequest(limits=wanted, expected_version=expected)

    async def ask(stub: Any) -> Any:
        return await stub.PutClusterLimits(request, timeout=CALL_S, metadata=who())

    answer = administer(address, state_dir, ask)
    stored = len(answer.limits)
    print(f"{stored} limits over everybody are stored, version {answer.directory_version}")
