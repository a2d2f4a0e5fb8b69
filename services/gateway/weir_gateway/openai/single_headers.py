"""Headers of which a request has one."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from weir_core.errors import Reason, WeirError

_SINGLE = frozenset({b"authorization", b"x-api-key", b"idempotency-key"})


class SingleHeaders:
    """Refuses a request that says twice who asks, or which request it is.

    A proxy in front that reads the first would have checked another key than the one that counts.

    Args:
        app: serves all others.
        refuse: answers with an error.
    """

    def __init__(
        self, app: ASGIApp, refuse: Callable[[Request, Exception], Awaitable[Response]]
    ) -> None:
        self.app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] == "http":
            names = [name for name, _ in scope["headers"] if name in _SINGLE]
            if len(set(names)) < len(names):
                response = await self._refuse(Request(scope), _twice(names))
                await response(scope, receive, send)
                return
        await self.app(scope, receive, send)


def _twice(names: list[bytes]) -> WeirError:
    name = next(name for name in names if names.count(name) > 1).decode()
    return WeirError(
        Reason.INVALID_FIELD, f"the header {name} is there twice; send it once", field=name
    )
