"""`weir explain`: what happened to a request; or what a tenant's limits are at."""

import asyncio
import re
import time
from typing import Annotated

import typer
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message

from weir.common.v1.subject_pb2 import DeliveryMode, Subject
from weir.ratelimiter.v1.ratelimiter_service_pb2 import (
    ExplainRequest,
    ExplainResponse,
    ReserveRequest,
)
from weir_cli.account_options import Key, Model, OfStateDir, Printed, User
from weir_cli.account_text import account_text, decision_text
from weir_cli.errors import CommandError
from weir_cli.explanation_text import explanation_text
from weir_cli.insight import explained
from weir_cli.output import Output
from weir_cli.ratelimiter import CALL_S, ask
from weir_cli.stack.running import ratelimiter_door
from weir_ratelimiter.domain.ids import reservation_id

_Address = Annotated[
    str,
    typer.Option(
        help="host:port of a ratelimiter, its secret in WEIR_CLUSTER_TOKEN; of a request, of a "
        "gateway's gRPC, with WEIR_ADMIN_SECRET or WEIR_API_KEY."
    ),
]
_REQUEST = re.compile(r"(req|job)_[0-9a-f]{32}(\.\d+)?")


def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="ID|TENANT",
            help="Id of a request, as its answer or refusal told it (x-request-id), or a tenant.",
            show_default=False,
        ),
    ] = "",
    tenant: Annotated[str, typer.Option(help="Whose account to show.", show_default=False)] = "",
    user: User = "",
    key: Key = "",
    model: Model = "",
    prompt_tokens: Annotated[
        int, typer.Option(min=0, help="Ask what a request with such a prompt would meet.")
    ] = 0,
    max_new_tokens: Annotated[
        int, typer.Option(min=1, help="Longest answer of that request, tokens.")
    ] = 256,
    stream: Annotated[bool, typer.Option("--stream", help="That request streams.")] = False,
    request_id: Annotated[
        str,
        typer.Option(
            "--request",
            help="With a tenant: show the reservation of one request, by its x-request-id. "
            "Refused ones hold none and are not found.",
        ),
    ] = "",
    output: Printed = Output.TEXT,
    state_dir: OfStateDir = None,
    address: _Address = "",
) -> None:
    """Say what happened to a request and why, or what every limit of a tenant is at.

    Of a request: why it was refused, waited, was changed or was slow, and what to change. A
    gateway is asked, with the admin secret or with an API key of its tenant.

    Of a tenant: USED counts what is charged and what is HELD: the reservations of requests that
    run now. A user, key or model that the directory does not have is an error. Nothing changes.
    """
    if what and not tenant and not _REQUEST.fullmatch(what):
        what, tenant = "", what
    if what:
        told = explained(what, address, state_dir)
        print(_json(told) if output is Output.JSON else explanation_text(told))
        return
    if not tenant:
        raise CommandError("what? give the id of a request, or a tenant")
    if prompt_tokens and not model:
        raise CommandError("a request has a model: give --model with --prompt-tokens")
    request = ExplainRequest(
        subject=Subject(tenant_id=tenant, user_id=user, api_key_id=key, model=model),
        reservation_id=reservation_id(tenant, request_id) if request_id else "",
    )
    if prompt_tokens:
        request.hypothetical.CopyFrom(_hypothetical(prompt_tokens, max_new_tokens, stream))
    door = ratelimiter_door(address, state_dir)
    response = asyncio.run(ask(door, lambda stub: stub.Explain(request, timeout=CALL_S)))
    if output is Output.JSON:
        print(_json(response))
    else:
        _print(request, response)


def _json(message: Message) -> str:
    return MessageToJson(message, preserving_proto_field_name=True)


def _hypothetical(prompt_tokens: int, max_new_tokens: int, stream: bool) -> ReserveRequest:
    return ReserveRequest(
        prompt_tokens=prompt_tokens,
        max_new_tokens=max_new_tokens,
        mode=DeliveryMode.DELIVERY_MODE_STREAM if stream else DeliveryMode.DELIVERY_MODE_NON_STREAM,
    )


def _print(request: ExplainRequest, response: ExplainResponse) -> None:
    now_ms = time.time_ns() // 1_000_000
    print(account_text(response, now_ms))
    if request.HasField("hypothetical"):
        asked = request.hypothetical
        print(
            f"\nA request of {asked.prompt_tokens} prompt + {asked.max_new_tokens} output tokens "
            f"would now be {decision_text(response, now_ms)}"
        )
