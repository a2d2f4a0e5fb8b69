"""Text on its way to one client: bounded, and never in the way of the shared stream."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from weir.common.v1.sampling_pb2 import TokenLogprobs

EndT = TypeVar("EndT")


@dataclass(slots=True)
class Piece:
    """New text and the tokens behind it; the text may lag behind the tokens.

    Attributes:
        choice: which of several answers it continues.
        logprobs: one for each token, if they were asked for.
        prompt_logprobs: one for each token of the prompt but the first, likewise.
        embedding: of input `choice`, if those are asked for.
    """

    text: str
    token_ids: list[int]
    choice: int = 0
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    prompt_logprobs: Sequence[TokenLogprobs] = ()
    embedding: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """The request waits: its place in its tenant's queue, and why (`QueueReason`)."""

    position: int
    reason: int


@dataclass(slots=True)
class Taken(Generic[EndT]):
    """What had gathered; all empty when nothing came in time."""

    waiting: Waiting | None = None
    pieces: list[Piece] = field(default_factory=list)
    ending: EndT | None = None


class Delivery(Generic[EndT]):
    """Buffer between the worker's stream and one client.

    A client that reads slowly gets larger pieces instead of more; one that does not read at
    all has its request stopped by whoever calls `push`.

    Args:
        whole: keep everything until the end, for clients that do not stream.
        max_pieces: beyond it new text joins the last piece.
        max_characters: beyond it `push` says no; not with `whole`.
    """

    def __init__(
        self, *, whole: bool, max_pieces: int = 64, max_characters: int = 1_000_000
    ) -> None:
        self._whole = whole
        self._max_pieces = max_pieces
        self._max_characters = max_characters
        self._pieces: list[Piece] = []
        self._characters = 0
        self._waiting: Waiting | None = None
        self._ending: EndT | None = None
        self._reader: asyncio.Future[None] | None = None

    @property
    def whole(self) -> bool:
        """Whether the client gets everything at the end."""
        return self._whole

    def push(self, piece: Piece) -> bool:
        """Adds what a step made; False when the client has fallen too far behind."""
        self._characters += len(piece.text)
        if len(self._pieces) < self._max_pieces or self._whole:
            self._pieces.append(piece)
        else:
            self._join(piece)
        if not self._whole:
            self._wake()
        return self._whole or self._characters <= self._max_characters

    def _join(self, piece: Piece) -> None:
        """Adds to the last piece of the same answer."""
        last = next((one for one in reversed(self._pieces) if one.choice == piece.choice), None)
        if last is None:
            self._pieces.append(piece)
            return
        last.text += piece.text
        last.token_ids.extend(piece.token_ids)
        last.logprobs.extend(piece.logprobs)

    def note(self, waiting: Waiting) -> None:
        """Tells the client where its request waits; only the latest place is kept."""
        self._waiting = waiting
        if not self._whole:
            self._wake()

    def reset(self) -> None:
        """Forgets what has not been taken: another attempt begins from the start."""
        self._pieces.clear()
        self._characters = 0

    def finish(self, ending: EndT) -> None:
        """The last thing the client gets, after everything before it."""
        self._ending = ending
        self._wake()

    async def take(self, timeout_s: float) -> Taken[EndT]:
        """Waits for news for at most `timeout_s` and returns all there is."""
        if not self._has_news():
            loop = asyncio.get_running_loop()
            self._reader = loop.create_future()
            timer = loop.call_later(timeout_s, self._wake)
            try:
                await self._reader
            finally:
                timer.cancel()
                self._reader = None
        if self._whole and self._ending is None:
            return Taken()
        taken = Taken(self._waiting, self._pieces, self._ending)
        self._waiting, self._pieces, self._characters = None, [], 0
        return taken

    def _has_news(self) -> bool:
        if self._whole:
            return self._ending is not None
        return bool(self._pieces or self._waiting or self._ending)

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
