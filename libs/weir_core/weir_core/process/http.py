"""An ASGI server inside the process's own event loop."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from weir_core.process.address import join_address, listen
from weir_core.process.http_protocol import BoundedHttpProtocol
from weir_core.tls.identity import TlsIdentity

_START_TIMEOUT_S = 10.0


class HttpServer:
    """uvicorn beside grpc.aio in one loop, without its signal handlers.

    Args:
        app: the ASGI application.
        address: `host:port`; port 0 picks one.
        knob: the setting to name when the address cannot be bound.
        graceful_s: how long `stop` waits for open responses.
        tls: who it is, and whom it trusts; None for plain text.
        config: more arguments of `uvicorn.Config`.
    """

    def __init__(
        self,
        app: Any,
        *,
        address: str,
        knob: str,
        graceful_s: float = 5.0,
        tls: TlsIdentity | None = None,
        **config: Any,
    ) -> None:
        self._address = address
        self._knob = knob
        self._graceful_s = graceful_s
        defaults: dict[str, Any] = {
            "http": BoundedHttpProtocol,
            "log_config": None,
            "access_log": False,
            "lifespan": "off",
            "server_header": False,
            "timeout_graceful_shutdown": max(1, round(graceful_s)),
        }
        if tls is not None:
            context = tls.http_context()
            defaults["ssl_context_factory"] = lambda *_: context
        self._server = _QuietServer(uvicorn.Config(app, **(defaults | config)))
        self._task: asyncio.Task[None] | None = None
        self.address = ""
        """`host:port` that is listened on; set by `start`."""

    async def start(self) -> None:
        """Binds and serves. Raises StartupError when the address cannot be bound."""
        sock = listen(self._address, self._knob)
        host, port = sock.getsockname()[:2]
        self.address = join_address(host, port)
        self._task = asyncio.create_task(self._server.serve(sockets=[sock]), name="http")
        async with asyncio.timeout(_START_TIMEOUT_S):
            while not self._server.started and not self._task.done():  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.005)
        if self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """Takes no more requests, waits `graceful_s` for open ones, then closes them."""
        if self._task is None:
            return
        self._server.should_exit = True
        done, _ = await asyncio.wait({self._task}, timeout=self._graceful_s + 2)
        if not done:
            self._server.force_exit = True
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=2)


class _QuietServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the signals to `ServiceRuntime`."""
        yield
