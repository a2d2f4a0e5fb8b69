"""`weir.gateway.v1.SessionService`: thin over `SessionDesk`."""

# ruff: noqa: N802 - methods are named by the contract

from google.protobuf.duration_pb2 import Duration

from weir.gateway.v1.session_service_pb2 import (
    CreateSessionRequest,
    CreateSessionResponse,
    DeleteSessionRequest,
    DeleteSessionResponse,
    GetSessionRequest,
    GetSessionResponse,
    ListSessionsRequest,
    ListSessionsResponse,
)
from weir.gateway.v1.session_service_pb2 import Session as SessionMessage
from weir.gateway.v1.session_service_pb2_grpc import SessionServiceServicer
from weir_core.rpc.interceptors.handler import Context
from weir_core.rpc.metadata import AUTHORIZATION, first_value
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.messages import timestamp
from weir_gateway.flow.reception import Reception
from weir_gateway.intake.model_list import ModelList
from weir_gateway.sessions.desk import SessionDesk
from weir_gateway.sessions.pages import SessionPages
from weir_gateway.sessions.session import Session


class SessionServicer(SessionServiceServicer):
    """Serves callers their tenant's sessions.

    Args:
        reception: lets them in.
        models: that they may use.
        desk: see there.
    """

    def __init__(self, reception: Reception, models: ModelList, desk: SessionDesk) -> None:
        self._reception = reception
        self._models = models
        self._desk = desk
        self._pages = SessionPages(desk)

    async def CreateSession(
        self, request: CreateSessionRequest, context: Context
    ) -> CreateSessionResponse:
        """Makes a session, or finds that of a label."""
        caller = self._caller(context)
        model = self._models.one(caller, request.model).name
        ttl_ms = request.idle_ttl.ToMilliseconds() if request.HasField("idle_ttl") else None
        session = await self._desk.create(caller, model, request.conversation_id, ttl_ms)
        return CreateSessionResponse(session=_message(session))

    async def GetSession(self, request: GetSessionRequest, context: Context) -> GetSessionResponse:
        """Reads a session."""
        session = await self._desk.get(self._caller(context), request.session_id)
        return GetSessionResponse(session=_message(session))

    async def ListSessions(
        self, request: ListSessionsRequest, context: Context
    ) -> ListSessionsResponse:
        """Lists living sessions, the newest first."""
        caller = self._caller(context)
        found, token = await self._pages.page(caller, request.page_size, request.page_token)
        return ListSessionsResponse(sessions=map(_message, found), next_page_token=token)

    async def DeleteSession(
        self, request: DeleteSessionRequest, context: Context
    ) -> DeleteSessionResponse:
        """Ends a session and releases its KV."""
        await self._desk.delete(self._caller(context), request.session_id)
        return DeleteSessionResponse()

    def _caller(self, context: Context) -> Caller:
        header = first_value(context.invocation_metadata(), AUTHORIZATION)
        return self._reception.let_in(header)


def _message(session: Session) -> SessionMessage:
    ttl = Duration()
    ttl.FromMilliseconds(session.idle_ttl_ms)
    return SessionMessage(
        session_id=session.id,
        conversation_id=session.conversation_id,
        model=session.model,
        create_time=timestamp(session.created_ms * 1_000),
        last_use_time=timestamp(session.last_use_ms * 1_000),
        idle_ttl=ttl,
        tokens=session.tokens,
    )
