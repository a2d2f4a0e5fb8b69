"""Sessions of the caller's tenant."""

from collections.abc import AsyncIterator, Iterable
from datetime import timedelta

from weir.gateway.v1 import session_service_pb2 as wire
from weir.gateway.v1.session_service_pb2_grpc import SessionServiceStub
from weir_client.connection import Connection
from weir_client.pages import all_pages
from weir_client.session import Session, session_of


class Sessions:
    """Makes, reads, lists and ends sessions. Every call raises WeirClientError's subclasses."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stub = SessionServiceStub(connection.channel)

    async def create(
        self, model: str, *, conversation_id: str = "", idle_ttl: timedelta | None = None
    ) -> Session:
        """Makes a session.

        Args:
            model: name or alias.
            conversation_id: the client's own label.
            idle_ttl: how long it stays without a request; None: the server's default.
        """
        request = wire.CreateSessionRequest(model=model, conversation_id=conversation_id)
        if idle_ttl is not None:
            request.idle_ttl.FromTimedelta(idle_ttl)
        response = await self._connection.call(self._stub.CreateSession, request)
        return session_of(response.session)

    async def get(self, session_id: str) -> Session:
        """Reads one. Raises NotFound for one that has ended."""
        request = wire.GetSessionRequest(session_id=session_id)
        return session_of((await self._connection.call(self._stub.GetSession, request)).session)

    def list(self, *, page_size: int = 100) -> AsyncIterator[Session]:
        """All of the tenant's."""

        async def fetch(token: str) -> tuple[Iterable[Session], str]:
            request = wire.ListSessionsRequest(page_size=page_size, page_token=token)
            response = await self._connection.call(self._stub.ListSessions, request)
            return map(session_of, response.sessions), response.next_page_token

        return all_pages(fetch)

    async def delete(self, session_id: str) -> None:
        """Ends one and frees what it holds."""
        request = wire.DeleteSessionRequest(session_id=session_id)
        await self._connection.call(self._stub.DeleteSession, request)
