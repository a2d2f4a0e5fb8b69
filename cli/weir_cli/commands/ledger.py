"""`weir ledger`: what was charged, through a running ratelimiter."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import grpc
import typer
from google.protobuf.json_format import MessageToJson

from weir.ratelimiter.v1 import ledger_service_pb2 as pb
from weir.ratelimiter.v1.ledger_service_pb2_grpc import LedgerServiceStub
from weir_cli.commands import ledger_database
from weir_cli.errors import CommandError
from weir_cli.ledger_text import status_text, usage_text
from weir_cli.moments import moment
from weir_cli.output import Output
from weir_cli.stack.running import Door, ratelimiter_door
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.channel import open_channel

_CALL_S = 60.0
_ERASE_S = 3_600.0

app = typer.Typer(
    help="Read, export, erase, verify, back up and restore the token ledger.",
    no_args_is_help=True,
)
app.command("backup")(ledger_database.backup)
app.command("restore")(ledger_database.restore)
app.command("verify")(ledger_database.verify)


class Format(StrEnum):
    """File formats of `weir ledger export`."""

    JSONL = "jsonl"
    CSV = "csv"
    CLOUDEVENTS = "cloudevents"


Tenant = Annotated[str, typer.Option(help="Of one tenant.")]
Key = Annotated[str, typer.Option(help="Of one API key, by its public id.")]
Model = Annotated[str, typer.Option(help="Of one model.")]
From = Annotated[
    str,
    typer.Option("--from", help="From this moment on, such as 2026-11-29 or 2026-11-29T12:00Z."),
]
To = Annotated[str, typer.Option("--to", help="Before this moment.")]
StateDirOption = Annotated[
    Path | None,
    typer.Option(
        envvar="WEIR_STATE_DIR", help="--state-dir of a `weir up`; default: the one that runs."
    ),
]
Address = Annotated[
    str, typer.Option(help="host:port of a ratelimiter; its secret in WEIR_CLUSTER_TOKEN.")
]
OutputOption = Annotated[Output, typer.Option("-o", "--output", help="How to print.")]


@app.command()
def usage(
    by: Annotated[
        str, typer.Option(help="hour or day, tenant, user, api_key, model; several by commas.")
    ] = "tenant,model",
    tenant: Tenant = "",
    key: Key = "",
    model: Model = "",
    from_: From = "",
    to: To = "",
    output: OutputOption = Output.TEXT,
    state_dir: StateDirOption = None,
    address: Address = "",
) -> None:
    """Sum up requests, tokens and money; times are those at which requests were reserved."""
    names = [name.strip() for name in by.split(",") if name.strip()]
    wanted = _filter(tenant, key, model, from_, to)
    request = pb.GetUsageRequest(filter=wanted, group_by=names)
    response = _call(
        ratelimiter_door(address, state_dir), lambda stub: stub.GetUsage(request, timeout=_CALL_S)
    )
    if output is Output.JSON:
        print(MessageToJson(response, preserving_proto_field_name=True))
    else:
        print(usage_text(names, response.sums))


@app.command()
def export(
    format_: Annotated[Format, typer.Option("--format", help="Format of the file.")] = Format.JSONL,
    tenant: Tenant = "",
    key: Key = "",
    model: Model = "",
    from_: From = "",
    to: To = "",
    state_dir: StateDirOption = None,
    address: Address = "",
) -> None:
    """Write rows to standard output; times are those at which requests were settled."""
    wanted = _filter(tenant, key, model, from_, to)
    number = pb.ExportFormat.Value(f"EXPORT_FORMAT_{format_.upper()}")
    request = pb.ExportRequest(filter=wanted, format=number)
    _call(ratelimiter_door(address, state_dir), lambda stub: _copy(stub.Export(request)))


@app.command()
def status(
    output: OutputOption = Output.TEXT, state_dir: StateDirOption = None, address: Address = ""
) -> None:
    """Show how far the ledger is behind."""
    request = pb.GetLedgerStatusRequest()
    response = _call(
        ratelimiter_door(address, state_dir),
        lambda stub: stub.GetLedgerStatus(request, timeout=_CALL_S),
    )
    if output is Output.JSON:
        print(MessageToJson(response, preserving_proto_field_name=True))
    else:
        print(status_text(response))


@app.command()
def erase(
    tenant: Annotated[str, typer.Argument(help="Tenant to erase.")],
    yes: Annotated[bool, typer.Option("--yes", help="It cannot be undone; do it.")] = False,
    still_in_directory: Annotated[
        bool,
        typer.Option(
            "--still-in-directory",
            help="Although the tenant is in the directory, and its budgets count from its rows.",
        ),
    ] = False,
    state_dir: StateDirOption = None,
    address: Address = "",
) -> None:
    """Replace what identifies a tenant by pseudonyms; numbers stay in the sums."""
    if not yes:
        raise CommandError(f"erasing {tenant} cannot be undone; add --yes")
    request = pb.EraseTenantRequest(tenant_id=tenant, still_in_directory=still_in_directory)
    response = _call(
        ratelimiter_door(address, state_dir),
        lambda stub: stub.EraseTenant(request, timeout=_ERASE_S),
    )
    print(f"{response.rows} rows erased; {response.pseudonym} stands for {tenant} in them")


def _filter(tenant: str, key: str, model: str, from_: str, to: str) -> pb.RowFilter:
    return pb.RowFilter(
        tenant_id=tenant,
        api_key_id=key,
        model=model,
        from_time=moment("--from", from_),
        to_time=moment("--to", to),
    )


def _call(door: Door, call: Callable[[Any], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with _stub(door) as stub:
            return await call(stub)

    return asyncio.run(run())


@asynccontextmanager
async def _stub(door: Door) -> AsyncIterator[Any]:
    async with open_channel(
        door.address, name="ratelimiter", token=door.token, tls=door.tls
    ) as channel:
        try:
            yield LedgerServiceStub(channel)
        except grpc.aio.AioRpcError as error:
            told = from_rpc_error(
                error, unavailable_as=Reason.LIMITER_UNAVAILABLE, peer="the ratelimiter"
            )
            raise CommandError(f"{door.address}: {told.message}") from None


async def _copy(pieces: Any) -> None:
    try:
        async for piece in pieces:
            sys.stdout.buffer.write(piece.content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        pieces.cancel()
        raise CommandError("whoever read the rows has left") from None
