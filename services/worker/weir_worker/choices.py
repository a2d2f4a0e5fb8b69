"""Several answers of one attempt, which the engine computes as requests of their own."""

from collections.abc import Sequence

import msgspec

from weir_core.errors import Reason
from weir_worker.engine.commands import Submit
from weir_worker.engine.events import Failure, FinishReason, Terminal, Usage
from weir_worker.terminal_records import AttemptKey

_SEEDS = 2**64


class Choices:
    """The answers of an attempt, from their starts to their ends.

    The first one computes the prompt. The others start when that is done, find its blocks in
    the cache and compute no more than its last, partial block again: which is charged to
    nobody, as a pre-emption's work is. Answer i draws with seed + i.

    Args:
        submit: of answer 0, which has the attempt's own id.
        count: answers.

    Attributes:
        keys: how the engine knows the answers.
    """

    def __init__(self, submit: Submit, count: int) -> None:
        self.keys: list[AttemptKey] = [
            (_engine_id(submit.request_id, index), submit.attempt) for index in range(count)
        ]
        self._submit = submit
        self._started = 1
        self._kv_blocks = [0] * count
        self._ends: list[Terminal | None] = [None] * count

    @property
    def running(self) -> list[AttemptKey]:
        """Answers that the engine has and that have not ended."""
        started = self.keys[: self._started]
        return [key for key, end in zip(started, self._ends, strict=False) if end is None]

    @property
    def places(self) -> int:
        """Answers that are computed at once."""
        return len(self.keys)

    @property
    def ended(self) -> bool:
        """Whether every answer has."""
        return None not in self._ends

    @property
    def ends(self) -> Sequence[Terminal]:
        """How the answers ended, in order, once all have."""
        return [end for end in self._ends if end is not None]

    def take_rest(self) -> list[Submit]:
        """The starts of all answers but the first; nothing when they were taken before."""
        first = self._started
        self._started = len(self.keys)
        return [self._submit_of(index) for index in range(first, len(self.keys))]

    def note_blocks(self, index: int, kv_blocks: int) -> int:
        """Blocks that an answer holds; returns those of all."""
        self._kv_blocks[index] = kv_blocks
        return sum(self._kv_blocks)

    def note_end(self, index: int, terminal: Terminal) -> None:
        """An answer has ended; with the first, those that never started have too."""
        self._ends[index] = terminal
        self._kv_blocks[index] = 0
        if index == 0 and self._started == 1:
            for other in range(1, len(self.keys)):
                self._ends[other] = msgspec.structs.replace(terminal, usage=Usage(), preemptions=0)
            self._started = len(self.keys)

    def note_unstarted(self, index: int, failure: Failure, now_us: int) -> None:
        """The engine did not take the start of an answer."""
        reason = FinishReason.ABORT if failure.reason is Reason.CANCELLED else FinishReason.ERROR
        self._ends[index] = Terminal(
            self.keys[index][0],
            self.keys[index][1],
            self._submit.tenant,
            reason,
            Usage(),
            failure,
            received_us=now_us,
            end_us=now_us,
        )

    def terminal(self) -> Terminal:
        """The end of the attempt: the prompt counted once, the outputs together."""
        ends = self.ends
        first, worst = ends[0], _worst(ends)
        return msgspec.structs.replace(
            first,
            finish_reason=worst.finish_reason,
            failure=worst.failure,
            usage=self._usage(),
            end_us=max(end.end_us for end in ends),
            preemptions=sum(end.preemptions for end in ends),
            estimated=any(end.estimated for end in ends),
        )

    def _usage(self) -> Usage:
        return _together([end.usage for end in self.ends])

    def _submit_of(self, index: int) -> Submit:
        submit = self._submit
        sampling = submit.sampling
        if sampling.seed is not None:
            seed = (sampling.seed + index + _SEEDS // 2) % _SEEDS - _SEEDS // 2
            sampling = msgspec.structs.replace(sampling, seed=seed)
        return msgspec.structs.replace(
            submit,
            request_id=self.keys[index][0],
            shares_with=submit.request_id,
            sampling=msgspec.structs.replace(sampling, prompt_logprobs=None),
        )


def _engine_id(request_id: str, index: int) -> str:
    # No request id holds the sign, so that no request can name another's answer.
    return f"{request_id}#{index}" if index else request_id


def _worst(ends: Sequence[Terminal]) -> Terminal:
    """The end that is the attempt's: a failure before an abort, and so on."""
    order = (
        FinishReason.ERROR,
        FinishReason.REJECTED,
        FinishReason.ABORT,
        FinishReason.LENGTH,
        FinishReason.STOP,
    )
    return min(ends, key=lambda end: order.index(end.finish_reason))


def _together(usages: Sequence[Usage]) -> Usage:
    first, others = usages[0], usages[1:]
    again = sum(usage.computed_prompt_tokens for usage in others)
    return Usage(
        prompt_tokens=first.prompt_tokens,
        cached_prompt_tokens=first.cached_prompt_tokens,
        completion_tokens=sum(usage.completion_tokens for usage in usages),
        recomputed_tokens=again + sum(usage.recomputed_tokens for usage in usages),
    )
