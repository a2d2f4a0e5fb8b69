"""Follows the directory and keeps the last good version of it."""

import asyncio
import contextlib
import random
from collections.abc import Callable

import grpc
import structlog

from weir.directory.v1.directory_service_pb2 import WatchRequest, WatchResponse
from weir.directory.v1.directory_service_pb2_grpc import DirectoryServiceStub
from weir_core.directory.index import DirectoryIndex
from weir_core.errors import Reason, WeirError
from weir_core.tasks import end_task

_log = structlog.get_logger(__name__)

SILENCE_BOUND_S = 30.0
_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 0.1, 5.0


class DirectoryWatcher:
    """Client of `directory.v1.Watch`: reconnects for ever, forgets nothing.

    `channel` must carry the cluster secret (see `weir_core.rpc.channel`).
    """

    def __init__(self, channel: grpc.aio.Channel, watcher: str) -> None:
        self._stub = DirectoryServiceStub(channel)
        self._watcher = watcher
        self._index: DirectoryIndex | None = None
        self._ready = asyncio.Event()
        self._callbacks: list[Callable[[DirectoryIndex], None]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def index(self) -> DirectoryIndex | None:
        """The last good version; None before the first."""
        return self._index

    @property
    def required(self) -> DirectoryIndex:
        """The last good version.

        Raises:
            WeirError: DIRECTORY_UNAVAILABLE, before the first snapshot.
        """
        if self._index is None:
            raise WeirError(
                Reason.DIRECTORY_UNAVAILABLE,
                "the directory of tenants and models has not been received yet; "
                "is the gateway's control role up?",
                retry_after_s=1.0,
            )
        return self._index

    def on_change(self, callback: Callable[[DirectoryIndex], None]) -> None:
        """Calls back with every new version, and at once with the present one."""
        self._callbacks.append(callback)
        if self._index is not None:
            callback(self._index)

    def start(self) -> None:
        """Begins to watch."""
        self._task = asyncio.create_task(self._run(), name="directory-watcher")

    async def stop(self) -> None:
        """Ends the watch; the last good version stays."""
        if self._task is not None:
            await end_task(self._task)
            self._task = None

    async def wait_ready(self, timeout: float) -> DirectoryIndex:
        """Waits for the first snapshot.

        Raises:
            WeirError: DIRECTORY_UNAVAILABLE, after `timeout` seconds.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._ready.wait()
        return self.required

    async def _run(self) -> None:
        backoff = _FIRST_BACKOFF_S
        while True:
            before = self._index
            try:
                await self._watch_once()
            except (grpc.aio.AioRpcError, TimeoutError, ValueError) as error:
                _log.warning("directory watch interrupted", cause=_cause(error))
            if self._index is not before:
                backoff = _FIRST_BACKOFF_S
            await asyncio.sleep(backoff * random.uniform(0.5, 1.0))
            backoff = min(backoff * 2, _LONGEST_BACKOFF_S)

    async def _watch_once(self) -> None:
        known = self._index.version if self._index else 0
        call = self._stub.Watch(
            WatchRequest(watcher=self._watcher, known_version=known), wait_for_ready=True
        )
        try:
            while True:
                async with asyncio.timeout(SILENCE_BOUND_S):
                    response = await call.read()
                if not isinstance(response, WatchResponse):
                    return
                self._take(response)
        finally:
            call.cancel()

    def _take(self, response: WatchResponse) -> None:
        event = response.WhichOneof("event")
        if event == "snapshot":
            self._publish(DirectoryIndex(response.snapshot))
        elif event == "delta":
            self._publish(self.required.changed_by(response.delta))

    def _publish(self, index: DirectoryIndex) -> None:
        self._index = index
        self._ready.set()
        for callback in self._callbacks:
            try:
                callback(index)
            except Exception:
                _log.exception("directory listener failed", version=index.version)


def _cause(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return repr(error)
