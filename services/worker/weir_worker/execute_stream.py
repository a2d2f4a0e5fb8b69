"""One gateway's stream: all its attempts, a frame for one step or for several quick ones."""

from collections.abc import AsyncIterable, Awaitable, Callable, Sequence

from weir.common.v1.lifecycle_pb2 import TerminalRecord
from weir.worker.v1.worker_service_pb2 import ExecuteRequest, ExecuteResponse, StartAttempt
from weir_core.rpc.framed import FramedConnection, FramedOptions, StreamClosed
from weir_core.telemetry.logs import get_logger
from weir_worker.abort_cause import STREAM_ENDED, cause_of
from weir_worker.attempts import Attempts
from weir_worker.engine.events import Delta
from weir_worker.frame_pace import FramePace
from weir_worker.pending_delta import PendingDelta
from weir_worker.running_attempt import RunningAttempt
from weir_worker.start_refused import StartRefused
from weir_worker.terminal_records import AttemptKey

_Item = PendingDelta | TerminalRecord

_log = get_logger(__name__)


class ExecuteStream:
    """Starts and aborts what a gateway asks for, and writes its news.

    The engine's news of a step is queued in one turn of the event loop, before the writer
    task runs: so it leaves as one frame. First tokens and ends leave at once, and with them what
    is held of others; between them frames are `interval_s` apart.

    Args:
        attempts: of the worker.
        options: heartbeat and stall bounds.
        interval_s: see `FramePace`.
    """

    def __init__(self, attempts: Attempts, options: FramedOptions, interval_s: float) -> None:
        self.gateway_id = ""
        self._attempts = attempts
        self._mine: set[AttemptKey] = set()
        self._pending: dict[tuple[AttemptKey, int], PendingDelta] = {}
        self._held: list[PendingDelta] = []
        self._pace = FramePace(interval_s, self._release)
        self._connection: FramedConnection[_Item, ExecuteResponse, ExecuteRequest] = (
            FramedConnection(
                coalesce=self._frame_of,
                ping=ExecuteResponse,
                name="gateway",
                size_of=_size_of,
                options=options,
            )
        )

    async def serve(
        self,
        frames: AsyncIterable[ExecuteRequest],
        send: Callable[[ExecuteResponse], Awaitable[object]],
    ) -> None:
        """Runs the stream to its end; what it started and still runs is aborted then."""
        try:
            await self._connection.run(send, frames, self._on_frame)
        finally:
            self._pace.cancel()
            _log.info("gateway_stream_ended", gateway_id=self.gateway_id, aborted=len(self._mine))
            for key in list(self._mine):
                self._attempts.abort(key, STREAM_ENDED)

    def close(self, why: str) -> None:
        """Ends the stream once everything queued is written."""
        self._release()
        self._connection.writer.close(why)

    def on_delta(self, attempt: RunningAttempt, delta: Delta, choice: int) -> None:
        """See `AttemptSink`."""
        key = (attempt.key, choice)
        pending = self._pending.get(key)
        if pending is None or pending.full:
            pending = self._pending[key] = PendingDelta(attempt, choice)
            self._held.append(pending)
        pending.add(delta)
        if not self._held:
            return
        first = attempt.completion_tokens <= len(delta.token_ids)
        if first or self._pace.due():
            self._release()
        else:
            self._pace.hold()

    def on_terminal(self, record: TerminalRecord) -> None:
        """See `AttemptSink`."""
        self._release()
        key = (record.attempt.request_id, record.attempt.number)
        self._mine.discard(key)
        for choice in range(max(1, len(record.choices))):
            self._pending.pop((key, choice), None)
        self._put(record)

    def _on_frame(self, frame: ExecuteRequest) -> None:
        if frame.gateway_id:
            self.gateway_id = frame.gateway_id
        for start in frame.starts:
            self._start(start)
        for abort in frame.aborts:
            key = (abort.attempt.request_id, abort.attempt.number)
            self._attempts.abort(key, cause_of(abort.cause))

    def _start(self, start: StartAttempt) -> None:
        try:
            self._mine.add(self._attempts.start(start.grant, start.spec, self).key)
        except StartRefused as refused:
            self._put(refused.record)

    def _release(self) -> None:
        if not self._held:
            return
        held, self._held = self._held, []
        for pending in held:
            self._put(pending)
        self._pace.sent()

    def _put(self, item: _Item) -> None:
        # Never refused for its size: one delta an answer waits at most, and one terminal.
        try:
            self._connection.writer.put_control(item)
        except StreamClosed:
            _log.debug("news_dropped", gateway_id=self.gateway_id)

    def _frame_of(self, items: Sequence[_Item]) -> ExecuteResponse:
        frame = ExecuteResponse()
        for item in items:
            if isinstance(item, TerminalRecord):
                frame.terminals.append(item)
                continue
            if self._pending.get(item.key) is item:
                del self._pending[item.key]
            item.write_to(frame.deltas.add())
        return frame


def _size_of(item: _Item) -> int:
    return item.ByteSize() if isinstance(item, TerminalRecord) else item.size
