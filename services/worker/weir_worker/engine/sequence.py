"""One attempt inside the engine."""

from enum import Enum, auto

from weir_worker.engine.commands import Submit
from weir_worker.engine.events import FinishReason, Progress, Usage
from weir_worker.engine.timeline import Timeline
from weir_worker.engine.unit_vector import unit_vector
from weir_worker.kv import BlockTable
from weir_worker.models.base import SequenceSlice
from weir_worker.sampling import SamplingState, TokenLogprobs
from weir_worker.sampling.constraint import Constraint
from weir_worker.text import OutputText


class Status(Enum):
    """Where a sequence is. Pre-empted ones wait."""

    WAITING = auto()
    RUNNING = auto()
    FINISHED = auto()


class Sequence:
    """Tokens of one attempt and how far they are computed.

    There are no phases: while it runs, `computed < len(token_ids)`, and a step computes some
    of the difference. A step that computes all of it samples one token more.

    Attributes:
        age: order of arrival, the smallest is the oldest.
        token_ids: prompt and output; its block table reads this very list.
        prompt_tokens: length of the prompt.
        max_tokens: length at which it ends.
        computed: leading tokens whose KV is in the cache.
        high_water: the most that `computed` ever was; below it, work is done again.
        cached_prompt_tokens: prompt tokens hit before they were ever computed.
        session: its id; empty for a request of none.
        session_ttl_us: how long its session keeps its KV when it has ended; 0: not at all.
        stop_ids: tokens that end it: end of sequence unless ignored, and stop ids.
        told: log-probabilities of the prompt's tokens but the first, as far as they are known;
            None where they are not asked for.
        pooled: sum of the last hidden states of the computed tokens, empty before the first; None
            where its embedding is not asked for.
        slice: its rows in the next forward pass, reused from step to step.
    """

    __slots__ = (
        "age",
        "attempt",
        "cached_prompt_tokens",
        "computed",
        "deadline_us",
        "first_token_us",
        "high_water",
        "max_tokens",
        "pooled",
        "preemptions",
        "prefill_end_us",
        "prefill_start_us",
        "priority",
        "prompt_tokens",
        "received_us",
        "recomputed_tokens",
        "request_id",
        "sampling",
        "session",
        "session_ttl_us",
        "slice",
        "status",
        "stop_ids",
        "table",
        "tenant",
        "text",
        "timeline",
        "token_ids",
        "told",
    )

    def __init__(
        self,
        submit: Submit,
        *,
        age: tuple[int, int],
        token_ids: list[int],
        max_tokens: int,
        stop_ids: frozenset[int],
        table: BlockTable,
        text: OutputText,
        received_us: int,
        constraint: Constraint | None = None,
    ) -> None:
        self.request_id = submit.request_id
        self.attempt = submit.attempt
        self.tenant = submit.tenant
        self.priority = submit.priority
        self.deadline_us = submit.deadline_us
        self.session = submit.private_scope
        self.session_ttl_us = submit.kv.session_ttl_ms * 1000 if self.session else 0
        self.age = age
        self.token_ids = token_ids
        self.prompt_tokens = len(token_ids)
        self.max_tokens = max_tokens
        self.stop_ids = stop_ids
        self.table = table
        self.text = text
        self.sampling = SamplingState(submit.sampling, token_ids, stop_ids, constraint)
        asked = submit.sampling.prompt_logprobs is not None
        self.told: list[TokenLogprobs] | None = [] if asked else None
        self.pooled: list[float] | None = [] if submit.embed else None
        self.slice = SequenceSlice(0, 0, table.indices)
        self.status = Status.WAITING
        self.computed = 0
        self.high_water = 0
        self.cached_prompt_tokens = 0
        self.recomputed_tokens = 0
        self.preemptions = 0
        self.timeline = Timeline()
        self.received_us = received_us
        self.prefill_start_us = 0
        self.prefill_end_us = 0
        self.first_token_us = 0

    @property
    def remaining(self) -> int:
        """Tokens to compute before the next one can be sampled."""
        return len(self.token_ids) - self.computed

    @property
    def most_hit(self) -> int | None:
        """Leading tokens that the cache may give it; None: any. What is not told is computed, and
        so is all that is pooled."""
        if self.pooled is not None:
            return 0
        return None if self.told is None else len(self.told)

    def untold(self, length: int) -> range:
        """Positions among the next `length` whose logits tell of the prompt's next token."""
        if self.told is None:
            return range(0)
        first = max(self.computed, len(self.told))
        return range(first, min(self.computed + length, self.prompt_tokens - 1))

    def resume_at(self, hit: int) -> None:
        """Start to run with `hit` tokens found in the cache."""
        self.status = Status.RUNNING
        self.computed = hit
        if hit > self.high_water:
            self.cached_prompt_tokens += min(hit, self.prompt_tokens) - self.high_water
            self.high_water = hit

    def advance(self, length: int) -> None:
        """Note that the next `length` tokens are computed."""
        before = self.computed
        self.computed = before + length
        if before < self.high_water:
            self.recomputed_tokens += min(self.computed, self.high_water) - before
        if self.computed > self.high_water:
            self.high_water = self.computed

    def restart(self, now_us: int) -> None:
        """Wait again, with nothing computed."""
        self.timeline.preempted(now_us, self.computed)
        self.status = Status.WAITING
        self.computed = 0
        if self.pooled is not None:
            self.pooled = []
        self.preemptions += 1

    def add_pooled(self, sums: list[float]) -> None:
        """Note the sum of the last hidden states of tokens that were just computed."""
        before = self.pooled or [0.0] * len(sums)
        self.pooled = [one + other for one, other in zip(before, sums, strict=True)]

    def embedding(self) -> list[float]:
        """The mean of the hidden states of all its tokens, of Euclidean length 1.

        Raises:
            ArithmeticError: they are not finite, or all 0.
        """
        return unit_vector(self.pooled or ())

    def usage(self) -> Usage:
        """Return what has been used up to now."""
        return Usage(
            prompt_tokens=min(self.high_water, self.prompt_tokens),
            cached_prompt_tokens=self.cached_prompt_tokens,
            completion_tokens=len(self.token_ids) - self.prompt_tokens,
            recomputed_tokens=self.recomputed_tokens,
        )

    def progress(self) -> Progress:
        """Return how far it is, for a report."""
        usage = self.usage()
        return Progress(
            self.request_id,
            self.attempt,
            usage.prompt_tokens,
            usage.cached_prompt_tokens,
            usage.completion_tokens,
            len(self.table.blocks),
        )

    def take(self, token_id: int) -> FinishReason | None:
        """Append a sampled token; return the reason if it is the last whatever its text is."""
        self.token_ids.append(token_id)
        self.sampling.note(token_id)
        if token_id in self.stop_ids or self.sampling.complete:
            return FinishReason.STOP
        if len(self.token_ids) >= self.max_tokens:
            return FinishReason.LENGTH
        return None

    def say(self, token_id: int, reason: FinishReason | None) -> tuple[str, FinishReason | None]:
        """Return the text that became certain with a token, and why it is the last, if it is.

        End of sequence and stop ids have no text. A stop string counts before the length.

        Args:
            token_id: taken, and the next whose text is made.
            reason: what `take` returned.
        """
        if token_id in self.stop_ids:
            return self.text.flush(), reason
        text, stopped = self.text.push(token_id)
        if stopped:
            return text, FinishReason.STOP
        return text if reason is None else text + self.text.flush(), reason
