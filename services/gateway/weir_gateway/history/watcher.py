"""Somebody who watches: gets samples of its own length, and never holds the others up."""

import asyncio
from collections.abc import AsyncIterator

from weir.gateway.v1.history_service_pb2 import HistorySample
from weir_gateway.history.joining import join

_MOST_WAITING = 30
"""What a slow reader leaves unread is joined, so that it misses nothing but detail."""


class Watcher:
    """One reader.

    Args:
        step_s: shortest length of its samples but the first.
    """

    def __init__(self, step_s: float) -> None:
        self.step_s = step_s
        self._gathering: list[HistorySample] = []
        self._first = True
        self._ready: list[HistorySample] = []
        self._news = asyncio.Event()
        self._ended = False

    def offer(self, sample: HistorySample) -> None:
        """Takes a sample of the keeper."""
        self._gathering.append(sample)
        seconds = sum(one.duration.ToMicroseconds() for one in self._gathering) / 1e6
        if not self._first and seconds < self.step_s * 0.95:
            return
        self._first = False
        self._ready.append(join(self._gathering))
        self._gathering = []
        if len(self._ready) > _MOST_WAITING:
            self._ready = [join(self._ready)]
        self._news.set()

    def end(self) -> None:
        """No more comes."""
        self._ended = True
        self._news.set()

    async def samples(self) -> AsyncIterator[HistorySample]:
        """What was offered, until the end."""
        while True:
            await self._news.wait()
            self._news.clear()
            ready, self._ready = self._ready, []
            for sample in ready:
                yield sample
            if self._ended:
                return
