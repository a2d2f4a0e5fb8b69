"""A remote engine in the place of an own one: the same frames, computed elsewhere."""

import asyncio
import contextlib
import logging
import struct

import msgspec

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_worker.engine.commands import Abort, Command, Stop, Submit
from weir_worker.engine.events import EngineMessage, Failure, Ready, StartFailed
from weir_worker.remote.attempt import RemoteAttempt, Tokenise
from weir_worker.remote.news import RemoteNews
from weir_worker.remote.options import RemoteOptions
from weir_worker.remote.upstream import Upstream

logger = logging.getLogger(__name__)

_HEADER = struct.Struct("<I")
_HEARTBEAT_S = 0.5
# Chunks that arrive within so long leave in one frame.
_GATHER_S = 0.002
_MOST_FAILED_CHECKS = 3


class RemoteEngine:
    """Serves one server process over asyncio streams, as `EngineLoop` does over a socket.

    Args:
        upstream: computes.
        options: its bounds.
        ready: what to tell the server process.
        tokenise: text to token ids, for upstreams that do not tell ids.
        clock: time.
    """

    def __init__(
        self,
        upstream: Upstream,
        options: RemoteOptions,
        ready: Ready,
        tokenise: Tokenise,
        clock: Clock,
    ) -> None:
        self._upstream = upstream
        self._options = options
        self._ready = ready
        self._tokenise = tokenise
        self._clock = clock
        self._gate = asyncio.Semaphore(options.max_running)
        self._attempts: dict[tuple[str, int], tuple[RemoteAttempt, asyncio.Task[None]]] = {}
        self._changed = asyncio.Event()
        self._news = RemoteNews(ready.block_size, ready.num_blocks, self._changed.set)
        self._stopping = False
        self._encoder = msgspec.msgpack.Encoder()

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Work until a `Stop`, until the other end is gone, or until the upstream is."""
        try:
            if not await self._greet(writer):
                return
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(self._send_frames(writer))
                receiving = tasks.create_task(self._receive(reader))
                watching = tasks.create_task(self._watch())
                await sending
                receiving.cancel()
                watching.cancel()
        except* (OSError, EOFError, ConnectionError):
            logger.info("the server process is gone; the remote engine ends")
        except* WeirError as group:
            logger.error("the upstream engine is lost: %s", group.exceptions[0])
        finally:
            await self._end_all()
            writer.close()

    async def _greet(self, writer: asyncio.StreamWriter) -> bool:
        try:
            await self._upstream.check()
        except WeirError as error:
            self._write(writer, StartFailed(Failure.of(error)))
            await writer.drain()
            return False
        self._write(writer, self._ready)
        return True

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        decoder = msgspec.msgpack.Decoder(list[Command])
        while not self._stopping:
            # Its end is seen: the server process closes the connection when it stops.
            (length,) = _HEADER.unpack(await reader.readexactly(_HEADER.size))
            for command in decoder.decode(await reader.readexactly(length)):
                self._apply(command)

    def _apply(self, command: Command) -> None:
        match command:
            case Submit():
                self._start(command)
            case Abort(request_id=request_id, attempt=number, reason=reason, message=message):
                self._abort((request_id, number), reason, message)
            case Stop(message=message):
                self._stopping = True
                for key in list(self._attempts):
                    self._abort(key, Reason.DRAINING, message)
            case _:
                # Step bounds and drills are for engines of our own.
                pass
        self._changed.set()

    def _start(self, submit: Submit) -> None:
        key = (submit.request_id, submit.attempt)
        attempt = RemoteAttempt(submit, self._upstream, self._news, self._tokenise, self._clock)
        task = asyncio.create_task(attempt.run(self._gate), name="remote-attempt")
        self._attempts[key] = (attempt, task)
        task.add_done_callback(lambda _: self._ended(key))

    def _ended(self, key: tuple[str, int]) -> None:
        self._attempts.pop(key, None)
        self._changed.set()

    def _abort(self, key: tuple[str, int], reason: Reason, message: str) -> None:
        found = self._attempts.get(key)
        if found is not None:
            attempt, task = found
            attempt.abort(reason, message)
            task.cancel()

    async def _send_frames(self, writer: asyncio.StreamWriter) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_HEARTBEAT_S):
                    await self._changed.wait()
            self._changed.clear()
            await asyncio.sleep(_GATHER_S)
            progress = [attempt.progress() for attempt, _ in self._attempts.values()]
            waiting = sum(not attempt.sent for attempt, _ in self._attempts.values())
            self._write(writer, self._news.take(progress, waiting))
            await writer.drain()
            if self._stopping and not self._attempts:
                return

    async def _watch(self) -> None:
        """Raise WeirError once the upstream has failed several checks in a row."""
        failed = 0
        while True:
            await asyncio.sleep(self._options.check_s)
            try:
                await self._upstream.check()
                failed = 0
            except WeirError:
                failed += 1
                if failed >= _MOST_FAILED_CHECKS:
                    raise

    async def _end_all(self) -> None:
        tasks = [task for _, task in self._attempts.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._upstream.close()

    def _write(self, writer: asyncio.StreamWriter, message: EngineMessage) -> None:
        frame = self._encoder.encode(message)
        writer.write(_HEADER.pack(len(frame)) + frame)
