"""The playground: a tenant that signed in by a key generates as that key."""

from typing import Any

from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from weir_core.errors import Reason, WeirError
from weir_core.host_port import split_address
from weir_gateway.caller.authenticator import Authenticator
from weir_gateway.caller.caller import Caller
from weir_gateway.console.gate import Gate
from weir_gateway.console.identity import Identity, Method
from weir_gateway.console.sources import Sources, only_at_edges
from weir_gateway.console.visit import Visit
from weir_gateway.edge import Edge


class Playground:
    """The handlers.

    Args:
        sources, authenticator: see there.
        edge: generates; None: this process does not.
    """

    def __init__(self, sources: Sources, authenticator: Authenticator, edge: Edge | None) -> None:
        self._sources = sources
        self._authenticator = authenticator
        self._edge = edge

    def routes(self, gate: Gate) -> list[BaseRoute]:
        """Under `/console/api`."""
        chat = _Chat(gate, self)
        return [
            gate.get("/playground/models", self._models),
            Route("/playground/chat", chat, methods=["POST"]),
        ]

    def caller(self, who: Identity) -> Caller:
        """As whom a session generates.

        Raises:
            WeirError: it was opened without a key, or the key is good no more.
        """
        if who.method is not Method.KEY:
            raise WeirError(
                Reason.PERMISSION_DENIED,
                "this session has no API key: paste one into the playground, which then calls "
                "/v1/chat/completions with it",
            )
        return self._authenticator.standing(who.tenant_id, who.key_id)

    @property
    def edge(self) -> Edge:
        """Raises WeirError where nothing is generated."""
        if self._edge is None:
            raise only_at_edges()
        return self._edge

    async def _models(self, visit: Visit) -> Any:
        visit.query()
        return self._served(visit.who) | self._port()

    def _port(self) -> dict[str, int]:
        """The page knows the host already, by which it was called."""
        if self._edge is None:
            return {}
        _, port = split_address(self._edge.grpc_address, "grpc_address")
        return {"grpc_port": port}

    def _served(self, who: Identity) -> dict[str, Any]:
        if who.method is Method.KEY:
            infos = self.edge.models.of(self.caller(who))
            told = [_entry(i.name, i.max_context_tokens, i.default_max_new_tokens) for i in infos]
            return {"models": told, "generate": "session"}
        index = self._sources.directory.required
        allowed = index.policy(who.tenant_id).allowed_models if who.tenant_id else ()
        told = [
            _entry(
                model.name,
                model.max_context_tokens,
                index.parameters(model.name, who.tenant_id).default_max_new_tokens,
            )
            for model in index.models
            if not allowed or model.name in allowed
        ]
        return {"models": told, "generate": "key"}


class _Chat:
    """`POST /playground/chat`: an answer just as `/v1/chat/completions` gives it."""

    def __init__(self, gate: Gate, playground: Playground) -> None:
        self._gate = gate
        self._playground = playground

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = await self._gate.enter(Request(scope), changes=True)
        caller = self._playground.caller(session.identity)
        await self._playground.edge.chat_of(caller)(scope, receive, send)


def _entry(name: str, context: int, default: int) -> dict[str, Any]:
    return {"id": name, "max_model_len": context, "default_max_new_tokens": default}
