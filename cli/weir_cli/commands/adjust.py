"""`weir limits adjust`: a goodwill credit, a debt forgiven, units taken."""

import asyncio
import time
import uuid
from typing import Annotated

import typer
from google.protobuf.json_format import MessageToJson

from weir.common.v1.subject_pb2 import Subject
from weir.ratelimiter.v1.ratelimiter_service_pb2 import AdjustLimitRequest, AdjustLimitResponse
from weir_cli.account_options import Address, Key, Model, OfStateDir, Printed, Tenant, User
from weir_cli.account_text import limits_text
from weir_cli.errors import CommandError
from weir_cli.output import Output
from weir_cli.ratelimiter import CALL_S, ask
from weir_cli.stack.running import ratelimiter_door
from weir_core.errors.refusal import counted
from weir_gateway.directory.money import parse_money
from weir_gateway.directory.units import parse_amount


def adjust(
    tenant: Tenant,
    limit: Annotated[str, typer.Argument(help="Id of the limit, such as tpm, or as explained.")],
    amount: Annotated[str, typer.Argument(help="Units, such as 50000 or 50k.")],
    note: Annotated[str, typer.Option(help="Why; kept in the ledger.")],
    take: Annotated[bool, typer.Option("--take", help="Take them instead of giving.")] = False,
    money: Annotated[bool, typer.Option("--money", help="AMOUNT is money, for cost.")] = False,
    user: User = "",
    key: Key = "",
    model: Model = "",
    adjustment_id: Annotated[
        str, typer.Option("--id", help="Makes a repeat harmless; default: a new one.")
    ] = "",
    output: Printed = Output.TEXT,
    state_dir: OfStateDir = None,
    address: Address = "",
) -> None:
    """Give AMOUNT to a bucket or window, or take it."""
    units = _units(amount, money)
    request = AdjustLimitRequest(
        adjustment_id=adjustment_id or f"adj_{uuid.uuid4().hex}",
        subject=Subject(tenant_id=tenant, user_id=user, api_key_id=key, model=model),
        limit_id=limit if "/" in limit else f"tenant:{tenant}/{limit}",
        units=-units if take else units,
        note=note,
    )
    door = ratelimiter_door(address, state_dir)
    response = asyncio.run(ask(door, lambda stub: stub.AdjustLimit(request, timeout=CALL_S)))
    if output is Output.JSON:
        print(MessageToJson(response, preserving_proto_field_name=True))
        return
    print(limits_text([response.limit], time.time_ns() // 1_000_000))
    done = "had been made already" if response.replayed else "is made"
    print(f"\nadjustment {request.adjustment_id} {done}{_fitted(request.units, response)}")


def _fitted(asked: int, response: AdjustLimitResponse) -> str:
    if response.units == asked:
        return ""
    resource = response.limit.resource
    fitted, of = counted(response.units, resource), counted(asked, resource)
    return f": {fitted} of {of} fitted, as the limit was full then; the ledger says {fitted}"


def _units(amount: str, money: bool) -> int:
    try:
        return parse_money(amount) if money else parse_amount(_number(amount))
    except ValueError as error:
        raise CommandError(f"AMOUNT: {error}") from None


def _number(amount: str) -> int | str:
    return int(amount) if amount.isascii() and amount.isdigit() else amount
