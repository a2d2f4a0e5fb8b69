"""Calls of one turn of the event loop travel together.

A server that reads, answers and writes to its file once for many calls has far less to do for each:
at some thousand calls a second these cost it more than the calls' own work. No call waits for
another's answer before it is sent.
"""

import asyncio
from typing import Any

import redis.asyncio as aioredis

Word = str | bytes | int

_MOST_CALLS = 64
"""In a batch: all of them are answered late if one is."""


class Batches:
    """Sends calls to one primary, which carries them out one by one, in order."""

    def __init__(self, client: aioredis.Redis) -> None:
        self._client = client
        self._open: _Batch | None = None
        self._sent: set[asyncio.Task[list[Any]]] = set()

    async def run(self, *call: Word) -> Any:
        """The answer to one call.

        A caller that goes away takes no other's answer with it.

        Raises:
            RedisError, OSError: it was refused; or all of its batch have no answer, and any may
                have been carried out.
        """
        batch = self._open
        if batch is None or len(batch.calls) == _MOST_CALLS:
            batch = self._open = self._begun()
        batch.calls.append(call)
        place = len(batch.calls) - 1
        answer = (await asyncio.shield(batch.answers))[place]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _begun(self) -> "_Batch":
        calls: list[tuple[Word, ...]] = []
        # It starts when everything has run that is ready now, and whoever asks until then is in it.
        task = asyncio.create_task(self._send(calls))
        self._sent.add(task)
        task.add_done_callback(self._sent.discard)
        return _Batch(calls, task)

    async def _send(self, calls: list[tuple[Word, ...]]) -> list[Any]:
        if self._open is not None and self._open.calls is calls:
            self._open = None
        pipeline = self._client.pipeline(transaction=False)
        for call in calls:
            pipeline.execute_command(*call)
        return await pipeline.execute(raise_on_error=False)


class _Batch:
    """Calls, and what will be their answers."""

    def __init__(self, calls: list[tuple[Word, ...]], answers: asyncio.Task[list[Any]]) -> None:
        self.calls = calls
        self.answers = answers
