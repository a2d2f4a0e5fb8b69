"""The engine, seen from the event loop of the server process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import msgspec

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.errors.startup import StartupError
from weir_core.stall_limit import StallLimit
from weir_worker.engine.commands import (
    Abort,
    Command,
    Preempt,
    ReadKv,
    ReleaseSession,
    SetLimits,
    Stop,
    Submit,
)
from weir_worker.engine.connection import EngineConnection
from weir_worker.engine.events import Ready, StartFailed, StepOutput, Terminal
from weir_worker.engine.in_flight import InFlight, OutputListener
from weir_worker.engine.launchers import EngineLauncher
from weir_worker.engine.limits import StepLimits
from weir_worker.engine.load import Load
from weir_worker.engine.ticket import EngineEvent, EventSink

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """Whether the engine lives.

    Attributes:
        alive: it has started, is connected and was not stopped.
        age_s: seconds since its last frame; it sends one a step, and two a second when idle.
        in_flight: attempts without a terminal.
        problem: why it is not alive.
    """

    alive: bool
    age_s: float
    in_flight: int
    problem: str = ""


class EngineClient:
    """Submits and aborts attempts and delivers their events.

    Every accepted `submit` gets exactly one `Terminal`, also when the engine dies: then at
    once, with WORKER_LOST and the usage known so far.

    Args:
        launcher: how the engine is started.
        clock: for ages and the times of lost requests.
        on_output: called with every frame, after the sinks of its attempts; frames of
            terminals that stand in for a lost engine included. Must not block or raise.
        on_lost: called once, with the cause, when the engine ends unasked.
        frozen_after_s: silence after which the engine counts as frozen and is killed; more
            than any step takes.
    """

    def __init__(
        self,
        launcher: EngineLauncher,
        clock: Clock,
        *,
        on_output: OutputListener | None = None,
        on_lost: Callable[[str], None] | None = None,
        frozen_after_s: float = 60.0,
    ) -> None:
        self._launcher = launcher
        self._clock = clock
        self._on_lost = on_lost
        self._frozen_after_s = frozen_after_s
        self._in_flight = InFlight(clock, on_output)
        self._connection: EngineConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._problem = "not started"
        self._stopping = False
        self._last_frame_us = 0
        self._ready: Ready | None = None

    @property
    def ready(self) -> Ready:
        """What the engine serves. Raises WeirError before `start`."""
        if self._ready is None:
            raise WeirError(Reason.WORKER_LOST, "the engine is not started")
        return self._ready

    @property
    def load(self) -> Load:
        """Gauges of the last frame; all 0 before the first and after a loss."""
        return self._in_flight.load

    @property
    def health(self) -> EngineHealth:
        """Present state; judge `age_s` against the longest step that is normal."""
        age_s = (self._clock.monotonic_us() - self._last_frame_us) / 1e6
        return EngineHealth(not self._problem, age_s, len(self._in_flight), self._problem)

    async def start(self, timeout_s: float = 300.0) -> Ready:
        """Start the engine and wait until it can serve.

        Raises:
            StartupError: one line that says what and which knob.
        """
        self._connection = await EngineConnection.open(await self._launcher.launch())
        try:
            async with asyncio.timeout(timeout_s):
                self._ready = await self._await_ready(self._connection)
        except TimeoutError:
            await self._abandon()
            raise StartupError(f"the engine did not start within {timeout_s:.0f} s") from None
        except BaseException:
            await self._abandon()
            raise
        self._problem = ""
        self._last_frame_us = self._clock.monotonic_us()
        self._reader = asyncio.create_task(self._read(self._connection), name="engine-reader")
        return self._ready

    def submit(self, submit: Submit, sink: EventSink | None = None) -> None:
        """Start an attempt; its events go to `sink`, the last one is its `Terminal`.

        Raises:
            WeirError: STALE_ATTEMPT when this or a newer attempt is in flight; WORKER_LOST
                or DRAINING when the engine takes nothing.
            ValueError, OverflowError: a field cannot be encoded.
        """
        connection = self._require()
        command = connection.encode(submit)
        self._in_flight.add(submit, sink)
        connection.send(command)

    async def stream(self, submit: Submit) -> AsyncIterator[EngineEvent]:
        """Start an attempt and yield its events; closing the iterator early aborts it."""
        events: asyncio.Queue[EngineEvent] = asyncio.Queue()
        self.submit(submit, events.put_nowait)
        try:
            while True:
                event = await events.get()
                yield event
                if isinstance(event, Terminal):
                    return
        finally:
            self.abort(submit.request_id, submit.attempt)

    def abort(
        self,
        request_id: str,
        attempt: int,
        reason: Reason = Reason.CANCELLED,
        message: str = "aborted",
    ) -> None:
        """End an attempt at the next step boundary; nothing happens when it has ended."""
        if self._connection is not None and self._in_flight.holds(request_id, attempt):
            self._send(Abort(request_id, attempt, reason, message))

    def release_session(self, tenant: str, session: str) -> None:
        """Give up what is kept of a session at the next step boundary; twice is once."""
        if self._connection is not None and not self._problem:
            self._send(ReleaseSession(tenant, session))

    def read_kv(self) -> None:
        """Ask what each KV block holds; it comes with one of the next frames.

        Raises:
            WeirError: WORKER_LOST or DRAINING when the engine takes nothing.
        """
        self._require()
        self._send(ReadKv())

    def set_limits(
        self, *, max_step_tokens: int | None = None, max_running: int | None = None
    ) -> None:
        """Change the bounds of a step.

        Raises:
            InvalidField: they contradict each other; nothing has changed.
        """
        self._require()
        ready = self.ready
        limits = StepLimits(
            max_step_tokens=max_step_tokens or ready.max_step_tokens,
            max_running=max_running or ready.max_running,
        )
        self._ready = msgspec.structs.replace(
            ready, max_step_tokens=limits.max_step_tokens, max_running=limits.max_running
        )
        self._send(SetLimits(limits.max_step_tokens, limits.max_running))

    def preempt(self, request_id: str) -> None:
        """Take the KV of a running request, as memory pressure would; for drills."""
        self._require()
        self._send(Preempt(request_id))

    async def stop(self, timeout_s: float = 10.0) -> None:
        """Abort everything, deliver the terminals and end the engine; twice is once.

        An engine that does not end within `timeout_s` is killed.
        """
        if self._connection is None or self._reader is None:
            return
        if not self._problem:
            self._stopping = True
            self._problem = "stopped"
            self._send(Stop())
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._reader)
        except TimeoutError:
            logger.warning("the engine did not stop within %.1f s; it is killed", timeout_s)
        await self._abandon()
        await self._reader

    def _require(self) -> EngineConnection:
        if self._connection is None or self._problem:
            reason = Reason.DRAINING if self._stopping else Reason.WORKER_LOST
            raise WeirError(reason, f"the engine takes no request: {self._problem}")
        return self._connection

    def _send(self, command: Command) -> None:
        if self._connection is not None:
            self._connection.send(self._connection.encode(command))

    async def _await_ready(self, connection: EngineConnection) -> Ready:
        try:
            message = await connection.receive()
        except (EOFError, OSError):
            how = await self._launcher.wait(5.0)
            raise StartupError(f"the engine ended while it started ({how})") from None
        if isinstance(message, StartFailed):
            raise StartupError(f"the engine could not start: {message.failure.message}")
        if not isinstance(message, Ready):
            raise StartupError("the engine sent a step before it was ready")
        return message

    async def _abandon(self) -> None:
        """Close the connection and make sure that the engine is gone."""
        if self._connection is not None:
            self._connection.close()
        self._launcher.kill()
        try:
            await self._launcher.wait(5.0)
        except TimeoutError:
            logger.exception("the engine could not be ended")

    async def _read(self, connection: EngineConnection) -> None:
        """Dispatch frames until the engine is gone; then end whatever is in flight."""
        cause = "the engine closed its connection"
        limit = StallLimit(self._frozen_after_s)
        try:
            while True:
                with limit:
                    message = await connection.receive()
                if isinstance(message, StepOutput):
                    self._last_frame_us = self._clock.monotonic_us()
                    self._in_flight.dispatch(message)
        except TimeoutError:
            cause = f"the engine is frozen: no sign of life for {self._frozen_after_s:.0f} s"
        except (EOFError, OSError):
            pass
        except msgspec.MsgspecError as error:
            cause = f"the engine sent a broken frame: {error}"
        finally:
            limit.close()
            self._end(cause)

    def _end(self, cause: str) -> None:
        unasked = not self._stopping
        if not self._problem:
            self._problem = cause
        self._launcher.kill()
        self._in_flight.lose(f"the engine was lost: {cause}")
        if unasked and self._on_lost is not None:
            self._on_lost(cause)
