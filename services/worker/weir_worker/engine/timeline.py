"""What the steps did for one attempt, as far as a trace can show it."""

from enum import StrEnum

import msgspec

_MOST = 64


class MomentKind(StrEnum):
    """What happened; the names of the trace's events."""

    PREFILL_CHUNK = "prefill_chunk"
    PREEMPTED = "preempted"


class Moment(msgspec.Struct, array_like=True, gc=False):
    """One of them.

    Attributes:
        start_us, end_us: Unix microseconds, of the step; the same for a pre-emption.
        tokens: computed in the chunk, or lost by the pre-emption.
        steps: chunks that this one stands for.
    """

    kind: MomentKind
    start_us: int
    end_us: int
    tokens: int
    steps: int = 1


class Timeline:
    """Prefill chunks and pre-emptions, in their order.

    A long prompt has hundreds of chunks: above a bound the last one grows instead. Decode
    steps are not kept: one lies between any two tokens.
    """

    __slots__ = ("moments",)

    def __init__(self) -> None:
        self.moments: list[Moment] = []

    def chunk(self, start_us: int, end_us: int, tokens: int) -> None:
        """A step computed so many tokens of the prompt, or again after a pre-emption."""
        last = self.moments[-1] if len(self.moments) >= _MOST else None
        if last is not None and last.kind is MomentKind.PREFILL_CHUNK:
            last.end_us = end_us
            last.tokens += tokens
            last.steps += 1
        elif last is None or len(self.moments) < 2 * _MOST:
            self.moments.append(Moment(MomentKind.PREFILL_CHUNK, start_us, end_us, tokens))

    def preempted(self, now_us: int, tokens: int) -> None:
        """Its KV of so many tokens was taken."""
        if len(self.moments) < 2 * _MOST:
            self.moments.append(Moment(MomentKind.PREEMPTED, now_us, now_us, tokens))
