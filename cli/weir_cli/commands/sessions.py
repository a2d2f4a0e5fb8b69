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
from weir_cli.caller_door import DEFAULT_URL, Ca, Key, Url, call_once, list_all
from weir_cli.directory_text import Form, Format, Printed, print_forms

app = typer.Typer(help="Conversations whose KV workers keep.", no_args_is_help=True)

_COLUMNS = ("id", "model", "conversation_id", "tokens", "last_use", "idle_ttl_s")

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
    answer = call_once(url, key, ca, lambda channel: _stub(channel).CreateSession, request)
    print_forms(_form(answer.session), output, _COLUMNS)


@app.command("list")
def list_sessions(
    output: Printed = Format.TABLE, url: Url = DEFAULT_URL, key: Key = "", ca: Ca = None
) -> None:
    """List those that live, the newest first."""

    request = ListSessionsRequest()
    found = list_all(url, key, ca, lambda channel: _stub(channel).ListSessions, request, "sessions")
    print_forms([_form(one) for one in found], output, _COLUMNS)


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
    answer = call_once(url, key, ca, lambda channel: _stub(channel).GetSession, request)
    print_forms(_form(answer.session), output, _COLUMNS)


@app.command()
def delete(session_id: Id, url: Url = DEFAULT_URL, key: Key = "", ca: Ca = None) -> None:
    """End a session; its workers give up its KV."""
    request = DeleteSessionRequest(session_id=session_id)
    call_once(url, key, ca, lambda channel: _stub(channel).DeleteSession, request)
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
