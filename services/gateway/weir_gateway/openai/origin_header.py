"""The trace of a client, as its headers tell."""

from starlette.types import ASGIApp, Receive, Scope, Send

from weir_gateway.flow.origin import Origin, bind_origin


class OriginHeader:
    """Binds the origin of each request: its `traceparent` and `tracestate`.

    Args:
        app: serves it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] == "http":
            traceparent = tracestate = b""
            for name, value in scope["headers"]:
                if name == b"traceparent":
                    traceparent = value
                elif name == b"tracestate":
                    tracestate = value
            # Without them too: a connection's requests may share a context.
            bind_origin(Origin(traceparent.decode("latin-1"), tracestate.decode("latin-1")))
        await self.app(scope, receive, send)
