"""`weir pools`: what waits in each pool of a running scheduler; the pools of the directory."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf.json_format import MessageToDict

from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir_cli.commands.objects import add_commands
from weir_cli.directory_nouns import POOL
from weir_cli.output import Output
from weir_cli.pools_text import pools_text
from weir_cli.stack.running import Door, scheduler_door
from weir_cli.stack.scheduler_door import CALL_S, scheduler_stub

app = typer.Typer()

_Tenant = Annotated[str, typer.Option(help="Targets of this tenant alone.")]
_Printed = Annotated[Output, typer.Option("-o", "--output", help="How to print.")]
_StateDir = Annotated[
    Path | None,
    typer.Option(
        envvar="WEIR_STATE_DIR", help="--state-dir of a `weir up`; default: the one that runs."
    ),
]
_Address = Annotated[
    str, typer.Option(help="host:port of a scheduler; its secret in WEIR_CLUSTER_TOKEN.")
]


@app.callback(invoke_without_command=True)
def _group(
    context: typer.Context,
    tenant: _Tenant = "",
    output: _Printed = Output.TEXT,
    state_dir: _StateDir = None,
    address: _Address = "",
) -> None:
    """Show pools, what waits in them, how fast it goes, and how tenants' targets are kept.

    `ls`, `get`, `put` and `rm` are for the pools of a directory in a database.

    VERSION is `any` where none is asked for.

    WAIT is for a request that comes now, of a tenant of which nothing waits; `-` before workers
    have been full for a while.
    """
    if not context.invoked_subcommand:
        pools(tenant, output, state_dir, address)


def pools(tenant: str, output: Output, state_dir: Path | None = None, address: str = "") -> None:
    """Prints what `weir pools` shows."""
    seen = asyncio.run(_look(scheduler_door(address, state_dir), tenant))
    if output is Output.JSON:
        shown = MessageToDict(
            seen, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        print(json.dumps(shown, indent=2))
    else:
        print(pools_text(seen.pools, seen.slos))


add_commands(app, POOL)


async def _look(door: Door, tenant_id: str) -> wire.GetPoolStatusResponse:
    async with scheduler_stub(door) as stub:
        request = wire.GetPoolStatusRequest(tenant_id=tenant_id)
        return await stub.GetPoolStatus(request, timeout=CALL_S)
