"""The open `Execute` streams of a worker."""

from collections.abc import AsyncIterable, Awaitable, Callable

from weir.worker.v1.worker_service_pb2 import ExecuteRequest, ExecuteResponse
from weir_core.errors import Reason, WeirError
from weir_core.rpc.framed import FramedOptions
from weir_worker.attempts import Attempts
from weir_worker.execute_stream import ExecuteStream


class ExecuteStreams:
    """Serves streams, and ends all of them when the worker stops.

    Args:
        attempts: of the worker.
        options: bounds of each stream.
        interval_s: least seconds between frames of tokens, see `FramePace`.
    """

    def __init__(self, attempts: Attempts, options: FramedOptions, interval_s: float = 0) -> None:
        self._attempts = attempts
        self._options = options
        self._interval_s = interval_s
        self._open: set[ExecuteStream] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._open)

    async def serve(
        self,
        frames: AsyncIterable[ExecuteRequest],
        send: Callable[[ExecuteResponse], Awaitable[object]],
    ) -> None:
        """Serves one gateway until its stream ends. Raises WeirError(DRAINING) after `close`."""
        if self._closed:
            raise WeirError(Reason.DRAINING, "this worker is shutting down")
        stream = ExecuteStream(self._attempts, self._options, self._interval_s)
        self._open.add(stream)
        try:
            await stream.serve(frames, send)
        finally:
            self._open.discard(stream)

    def close(self, why: str) -> None:
        """Ends every stream once what is queued is written; takes no new ones."""
        self._closed = True
        for stream in list(self._open):
            stream.close(why)
