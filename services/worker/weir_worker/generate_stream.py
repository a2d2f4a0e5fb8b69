"""One attempt on a stream of its own."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from weir.common.v1.lifecycle_pb2 import TerminalRecord
from weir.worker.v1.worker_service_pb2 import GenerateRequest, GenerateResponse
from weir_worker.abort_cause import CALL_CANCELLED
from weir_worker.attempts import Attempts
from weir_worker.engine.events import Delta
from weir_worker.pending_delta import PendingDelta
from weir_worker.running_attempt import RunningAttempt
from weir_worker.start_refused import StartRefused


class GenerateStream:
    """The sink of one `Generate` call, and the iterator that its handler passes on.

    Args:
        attempts: of the worker.
    """

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._deltas: deque[PendingDelta] = deque()
        self._record: TerminalRecord | None = None
        self._news = asyncio.Event()

    async def events(self, request: GenerateRequest) -> AsyncGenerator[GenerateResponse]:
        """Runs the request; closing the iterator early aborts it.

        Raises the WeirError for which the start is refused.
        """
        try:
            attempt = self._attempts.start(request.grant, request.spec, self)
        except StartRefused as refused:
            raise refused.error from None
        try:
            while self._record is None or self._deltas:
                await self._next_news()
                while self._deltas:
                    yield self._take()
            yield GenerateResponse(terminal=self._record)
        finally:
            if self._record is None:
                self._attempts.abort(attempt.key, CALL_CANCELLED)

    def on_delta(self, attempt: RunningAttempt, delta: Delta, choice: int) -> None:
        """See `AttemptSink`."""
        key = (attempt.key, choice)
        last = next((one for one in reversed(self._deltas) if one.key == key), None)
        if last is None or last.full:
            last = PendingDelta(attempt, choice)
            self._deltas.append(last)
        last.add(delta)
        self._news.set()

    def on_terminal(self, record: TerminalRecord) -> None:
        """See `AttemptSink`."""
        self._record = record
        self._news.set()

    async def _next_news(self) -> None:
        """Returns when something can be sent. Ends at the latest with the engine's life."""
        self._news.clear()
        if not self._deltas and self._record is None:
            await self._news.wait()

    def _take(self) -> GenerateResponse:
        response = GenerateResponse()
        self._deltas.popleft().write_to(response.delta)
        return response
