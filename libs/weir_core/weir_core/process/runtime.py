"""One asyncio process from bind to drained exit."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import grpc

from weir_core.process.garbage import collect_seldom, keep_what_is_there
from weir_core.process.grpc_port import bind
from weir_core.process.http import HttpServer
from weir_core.process.parent import ParentWatch
from weir_core.rpc.health import ServerHealth, add_health
from weir_core.rpc.interceptors.metrics import rpcs_in_flight
from weir_core.rpc.server import add_reflection
from weir_core.telemetry.logs import get_logger
from weir_core.telemetry.metrics_app import metrics_app
from weir_core.telemetry.telemetry import Telemetry
from weir_core.tls.identity import TlsIdentity

Hook = Callable[[], Awaitable[None]]

_log = get_logger(__name__)

_CLOSE_TIMEOUT_S = 5.0
_DEAF_S = 1.0
_HANDLERS_END_S = 5.0
_ORPHAN_DRAIN_S = 5.0


@dataclass(slots=True)
class _Bound:
    key: str
    address: str
    server: grpc.aio.Server
    health: ServerHealth


class ServiceRuntime:
    """Starts what a service registers, waits for the end, and takes it down in order.

    The order of the end: health NOT_SERVING, drain hooks (bounded by `drain_s`),
    `server.stop(grace_s)`, the `finally` of cancelled handlers, close hooks in reverse order
    of registration, telemetry flushed. A second signal skips the drain.

    Args:
        name: short name of the service.
        telemetry: its traces and metrics.
        metrics_address: `host:port` of `/metrics` and `/healthz`; empty for none.
        drain_s: seconds for drain hooks together.
        grace_s: seconds for open RPCs.
        supervisor_pid: 0, or the parent: its death ends this process and SIGINT is ignored.
    """

    def __init__(
        self,
        name: str,
        *,
        telemetry: Telemetry,
        metrics_address: str = "",
        drain_s: float = 30.0,
        grace_s: float = 5.0,
        supervisor_pid: int = 0,
    ) -> None:
        self.name = name
        self.telemetry = telemetry
        self._metrics_address = metrics_address
        self._drain_s = drain_s
        self._grace_s = grace_s
        self._supervisor_pid = supervisor_pid
        self._servers: list[_Bound] = []
        self._drain_hooks: list[Hook] = []
        self._close_hooks: list[Hook] = []
        self._announced: dict[str, str] = {}
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    def add_server(
        self,
        server: grpc.aio.Server,
        *,
        address: str,
        knob: str,
        services: Sequence[str],
        key: str = "grpc",
        tls: TlsIdentity | None = None,
    ) -> str:
        """Binds a server, with health and reflection, to be started by `run`.

        Args:
            server: from `create_server`, its servicers already added.
            address: `host:port`; port 0 picks one.
            knob: the setting to name when the address cannot be bound.
            services: full names, such as `weir.worker.v1.WorkerService`.
            key: under which the address stands in the ready line.
            tls: see `bind`.

        Returns the bound `host:port`. Raises StartupError.
        """
        health = add_health(server, services)
        add_reflection(server, services)
        bound = bind(server, address, knob, tls)
        self._servers.append(_Bound(key, bound, server, health))
        self.announce(key, bound)
        return bound

    def announce(self, key: str, value: str) -> None:
        """Adds an entry to the ready line, such as `http` and an address."""
        self._announced[key] = value

    def on_drain(self, hook: Hook) -> None:
        """Registers what finishes running work; called while RPCs are still served."""
        self._drain_hooks.append(hook)

    def on_close(self, hook: Hook) -> None:
        """Registers what releases a resource; called last registered first, 5 s at most."""
        self._close_hooks.append(hook)

    def request_stop(self, reason: str) -> None:
        """Starts the end of the process; the second call skips the drain."""
        if self._stop.is_set():
            self._hurry.set()
            return
        _log.info("stopping", reason=reason)
        self._stop.set()

    @property
    def stopping(self) -> bool:
        """Whether the end has begun: take no new work."""
        return self._stop.is_set()

    async def run(self, wire: Hook) -> None:
        """Wires, serves until a signal, and takes everything down. Raises StartupError."""
        self._install_signals()
        watch = self._watch_parent()
        try:
            if await self._wired(wire):
                await self._start()
                await self._stop.wait()
                await self._drain()
        finally:
            await self._shut_down()
            if watch is not None:
                watch.cancel()

    async def _wired(self, wire: Hook) -> bool:
        """False when the end came first: wiring may load a model for a long time."""
        wiring = asyncio.ensure_future(wire())
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({wiring, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if wiring.done():
                wiring.result()
                return True
            return False
        finally:
            for task in (wiring, stopped):
                task.cancel()
            await asyncio.gather(wiring, stopped, return_exceptions=True)

    async def set_serving(self, service: str, serving: bool) -> None:
        """Sets the health of one service by full name."""
        for bound in self._servers:
            await bound.health.set_serving(service, serving)

    async def _start(self) -> None:
        if self._metrics_address:
            app = metrics_app(self.telemetry.registry, lambda: not self.stopping)
            http = HttpServer(app, address=self._metrics_address, knob="metrics_address")
            await http.start()
            self.on_close(http.stop)
            self.announce("metrics", http.address)
        for bound in self._servers:
            await bound.server.start()
            await bound.health.start()
        keep_what_is_there()
        collect_seldom()
        _log.info("ready", **self._announced)
        ready = {"event": "ready", "service": self.name, "pid": os.getpid()} | self._announced
        # One line on stdout: how a supervisor that asked for port 0 learns the ports.
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()

    async def _drain(self) -> None:
        for bound in self._servers:
            await bound.health.enter_shutdown()
        orphaned = self._supervisor_pid and os.getppid() != self._supervisor_pid
        limit_s = min(self._drain_s, _ORPHAN_DRAIN_S) if orphaned else self._drain_s
        drained = asyncio.ensure_future(self._run_all(self._drain_hooks, limit_s, "drain"))
        hurried = asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait({drained, hurried}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (drained, hurried):
                task.cancel()
            await asyncio.gather(drained, hurried, return_exceptions=True)

    async def _shut_down(self) -> None:
        grace_s = 0.0 if self._hurry.is_set() else self._grace_s
        if self._servers:  # else the service stops its own, in a close hook
            await asyncio.gather(*(b.server.stop(grace_s) for b in self._servers))
            await self._handlers_ended()
        for hook in reversed(self._close_hooks):
            await self._run_all([hook], _CLOSE_TIMEOUT_S, "close")
        await asyncio.to_thread(self.telemetry.shutdown)

    async def _handlers_ended(self) -> None:
        """`server.stop` returns while cancelled handlers still settle in their `finally`."""
        loop = asyncio.get_running_loop()
        end = loop.time() + _HANDLERS_END_S
        while rpcs_in_flight(self.telemetry.registry) and loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    async def _run_all(self, hooks: Sequence[Hook], limit_s: float, what: str) -> None:
        """Runs hooks together; a failing or late one is logged and hurts no other."""
        if not hooks:
            return
        tasks = [asyncio.ensure_future(hook()) for hook in hooks]
        try:
            await asyncio.wait(tasks, timeout=limit_s)
        finally:
            late = [task for task in tasks if not task.done()]
            for task in late:
                task.cancel()
            await asyncio.wait(tasks, timeout=_DEAF_S)
        for task in late:
            _log.warning(f"{what}_timed_out", limit_s=limit_s, ended=task.done())
        for task in tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                _log.error(f"{what}_failed", exc_info=error)

    def _install_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.request_stop, "SIGTERM")
        if self._supervisor_pid:
            # Ctrl-C reaches the whole process group; the supervisor decides what it means.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        else:
            loop.add_signal_handler(signal.SIGINT, self.request_stop, "SIGINT")

    def _watch_parent(self) -> asyncio.Task[None] | None:
        if not self._supervisor_pid:
            return None
        watch = ParentWatch(self._supervisor_pid, lambda: self.request_stop("supervisor died"))
        return asyncio.create_task(watch.run(), name="parent-watch")
