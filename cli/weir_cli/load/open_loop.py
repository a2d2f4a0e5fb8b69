"""Sends a load at its own moments, whatever has become of what was sent before."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from weir_cli.load.exchange import Exchange, Failure
from weir_cli.load.load_request import LoadRequest
from weir_cli.load.prompts import Prompt, Prompts
from weir_cli.load.target import Target

Progress = Callable[[int, int], None]
"""Told how many requests have ended, and of how many."""

_WARM_UP_AT_ONCE = 4
_APART = 1_000_000_007
"""Added to the index of a warm-up's prompt: none of the load's begins like it."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A load, sent.

    Attributes:
        exchanges: in the order of the load.
        begin_s: moment from which the load's own times count.
        end_s: when the last answer was complete.
    """

    exchanges: tuple[Exchange, ...]
    begin_s: float
    end_s: float

    @property
    def duration_s(self) -> float:
        """From the first intended sending to the last end."""
        first = min((one.intended_s for one in self.exchanges), default=self.begin_s)
        return max(1e-9, self.end_s - first)


class OpenLoop:
    """Sends loads to one target.

    With a bound on how many are under way a request may be sent late; its latency still counts
    from when it was to be sent. Where all are to be sent at once (rate infinity) such a bound
    makes the load closed, and latency counts from the sending: there was no moment to keep.

    Args:
        target: whom.
        prompts: of what.
        most_at_once: requests under way; 0: no bound.
    """

    def __init__(self, target: Target, prompts: Prompts, most_at_once: int = 0) -> None:
        self._target = target
        self._prompts = prompts
        self._most = most_at_once

    async def run(
        self,
        load: Sequence[LoadRequest],
        progress: Progress | None = None,
        stop_s: float = math.inf,
    ) -> Offered:
        """Sends all of it and waits for every end. Raises what a target raises: a fault of ours.

        Args:
            load: in order of its moments.
            progress: told of every end.
            stop_s: of a closed load nothing is sent later.
        """
        places = asyncio.Semaphore(self._most) if self._most else None
        closed = places is not None and all(one.at_s == 0 for one in load)
        # Made beforehand: making one must not delay those after it.
        prompts = [] if closed else [self._prompt(one) for one in load]
        exchanges: list[Exchange] = []
        ended = 0
        begin = time.monotonic()

        async def one(exchange: Exchange, prompt: Prompt) -> None:
            nonlocal ended
            try:
                await self._target.send(exchange, prompt)
            finally:
                if places is not None:
                    places.release()
            ended += 1
            if progress is not None:
                progress(ended, len(load))

        async with asyncio.TaskGroup() as tasks:
            for at, request in enumerate(load):
                prompt = self._prompt(request) if closed else prompts[at]
                intended = begin + request.at_s
                await asyncio.sleep(max(0.0, intended - time.monotonic()))
                if places is not None:
                    await places.acquire()
                if closed and time.monotonic() - begin >= stop_s:
                    break
                exchange = Exchange(request, time.monotonic() if closed else intended)
                exchanges.append(exchange)
                tasks.create_task(one(exchange, prompt))
        end = max((exchange.end_s for exchange in exchanges), default=begin)
        return Offered(tuple(exchanges), begin, end)

    def _prompt(self, request: LoadRequest) -> Prompt:
        return self._prompts.make(request.prompt_tokens, request.index)

    async def warm_up(self, requests: int, like: LoadRequest) -> Failure | None:
        """Sends a few that are not counted; the last failure among them."""
        loop = OpenLoop(self._target, self._prompts, _WARM_UP_AT_ONCE)
        load = [replace(like, index=_APART + number, at_s=0.0) for number in range(requests)]
        failures = [one.failure for one in (await loop.run(load)).exchanges if one.failure]
        return failures[-1] if failures else None
