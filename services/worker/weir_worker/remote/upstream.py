"""What computes for a remote engine."""

from collections.abc import AsyncGenerator
from typing import Protocol

import msgspec

from weir_worker.engine.commands import Submit
from weir_worker.engine.events import FinishReason, Usage


class Piece(msgspec.Struct, frozen=True):
    """A part of an answer.

    Attributes:
        token_ids: new ones; None: not told.
        text: new text.
        finish: why the answer ended, in its last piece.
        usage: what the upstream counted in all, once it has told.
        embedding: of the input, where that was asked for.
    """

    token_ids: list[int] | None = None
    text: str = ""
    finish: FinishReason | None = None
    usage: Usage | None = None
    embedding: list[float] = []


class Upstream(Protocol):
    """One engine elsewhere. Raises WeirError alone: no URL, key or prompt in its messages."""

    async def check(self) -> None:
        """Ask whether it lives and serves the model.

        Raises:
            WeirError: NO_WORKER if it does not answer; MODEL_NOT_FOUND; ENGINE_FAILED if it
                answers something else.
        """

    def complete(self, submit: Submit) -> AsyncGenerator[Piece]:
        """Compute one attempt, or its embedding; closing the generator cancels it at the upstream.

        Raises:
            WeirError: QUEUE_FULL if the upstream is busy, WORKER_LOST if it went away or fell
                silent, CONTEXT_LENGTH_EXCEEDED, or ENGINE_FAILED.
        """

    async def close(self) -> None:
        """Close every connection."""
