"""`weir sessions`: the sessions of the tenant whose key is used."""

from typing import Annotated, Any

import grpc
import typer

from weir.gateway.v1.session_service_pb2 import (
    CreateSessionRequest,
    DeleteSessionRequest,
    GetSessionRequest,
    ListSessionsRequest,
    Session,
)
from weir.gateway.v1.session_service_pb2_grpc import SessionServiceStub
from weir_cli.caller_door import CALL_S, DEFAULT_URL, Ca, Key, Metadata, Url, all_pages, as_caller
from weir_cli.directory_text import Form, Format, Printed, print_forms

app = typer.Typer(help="Conversations whose KV workers keep.", no_args_is_help=True)

_COLUMNS = ("id", "model", "conversation_id", "tokens", "last_use", "idle_ttl_s")
_PAGE = 1_000

Id = Annotated[str, typer.Argument(help="Id of a session.", metavar="ID")]


@app.command()
def create(
    model: Annotated[str, typer.Argument(help="Name or alias of a model.")],
    conversation_id: Annotated[str, typer.Option(help="Label of your own.")] = "",
    idle_ttl: Annotated[
        int,
        typer.Option(
            min=0,
            help="Seconds without a request after which it ends, 600 to 1800; 0: those of the "
            "tenant's policy.",
        ),
    ] = 0,
    output: Printed = Format.TABLE,
    url: Url = DEFAULT_URL,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """Make a session, or find that of a label."""
    request = CreateSessionRequest(model=model, conversation_id=conversation_id)
    if idle_ttl:
        request.idle_ttl.FromSeconds(idle_ttl)

    async def ask(channel: grpc.aio.Channel, metadata: Metadata) -> Any:
        return await _stub(channel).CreateSession(request, timeout=CALL_S, metadata=metadata)

    print_forms(_form(as_caller(url, key, ca, ask).session), output, _COLUMNS)


@app.command("list")
def list_sessions(
    output: Printed = Format.TABLE, url: Url = DEFAULT_URL, key: Key = "", ca: Ca = None
) -> None:
    """List those that live, the newest first."""

    async def ask(channel: grpc.aio.Channel, metadata: Metadata) -> list[Session]:
        request = ListSessionsRequest(page_size=_PAGE)
        return await all_pages(_stub(channel).ListSessions, request, metadata, "sessions")

    print_forms([_form(one) for one in as_caller(url, key, ca, ask)], output, _COLUMNS)


@app.command()
def show(
    session_id: Id,
    output: Printed = Format.TABLE,
    url: Url = DEFAULT_URL,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """Show one session."""
    request = GetSessionRequest(session_id=session_id)

    async def ask(channel: grpc.aio.Channel, metadata: Metadata) -> Any:
        return await _stub(channel).GetSession(request, timeout=CALL_S, metadata=metadata)

    print_forms(_form(as_caller(url, key, ca, ask).session), output, _COLUMNS)


@app.command()
def delete(session_id: Id, url: Url = DEFAULT_URL, key: Key = "", ca: Ca = None) -> None:
    """End a session; its workers give up its KV."""
    request = DeleteSessionRequest(session_id=session_id)

    async def ask(channel: grpc.aio.Channel, metadata: Metadata) -> Any:
        return await _stub(channel).DeleteSession(request, timeout=CALL_S, metadata=metadata)

    as_caller(url, key, ca, ask)
    print(f"{session_id} is deleted")


def _stub(channel: grpc.aio.Channel) -> Any:
    return SessionServiceStub(channel)


def _form(session: Session) -> Form:
    return {
        "id": session.session_id,
        "model": session.model,
        "conversation_id": session.conversation_id,
        "tokens": session.tokens,
        "created": session.create_time.ToJsonString(),
        "last_use": session.last_use_time.ToJsonString(),
        "idle_ttl_s": session.idle_ttl.seconds,
    }
