"""What a step computed, brought to its sequences: tokens, hidden states, text and ends."""

from itertools import islice

from weir_core.clock import Clock
from weir_core.errors import Reason
from weir_worker.engine.events import Failure, FinishReason
from weir_worker.engine.news import News
from weir_worker.engine.owed_text import EndOfText, OwedText, say
from weir_worker.engine.residents import Residents
from weir_worker.engine.sequence import Sequence, Status
from weir_worker.engine.step_plan import StepPlan
from weir_worker.kv import KvManager
from weir_worker.sampling import Samples, TokenLogprobs


class StepResults:
    """Takes tokens at once; their text is made by `settle_text`, or while the next step runs."""

    def __init__(self, residents: Residents, kv: KvManager, news: News, clock: Clock) -> None:
        self._residents = residents
        self._kv = kv
        self._news = news
        self._clock = clock
        self._owed = OwedText()
        self._ended: list[EndOfText] = []

    def settle_text(self) -> None:
        """Make the text that is owed; not while a step runs, whose sequences may end with it."""
        self.make_text()
        self.end_texts()

    def make_text(self) -> None:
        """Make the text that is owed, and end nothing yet."""
        self._ended += self._owed.settle()

    def end_texts(self) -> None:
        """End the sequences whose text said so."""
        ended, self._ended = self._ended, []
        for end in ended:
            self._residents.finish(end.sequence, end.reason, end.failure)

    def take(self, plan: StepPlan, samples: Samples) -> None:
        """Note what a step computed; a block is published only now that its KV is written."""
        now_us = self._clock.now_us()
        row = 0
        told, pooled = iter(samples.prompt_logprobs), iter(samples.pooled)
        for sequence, length in zip(plan.sequences, plan.lengths, strict=True):
            if sequence.status is Status.FINISHED:
                # Its text ended it while this step ran, which drew one token too many.
                row += 1
                continue
            if sequence.told is not None:
                sequence.told.extend(islice(told, len(sequence.untold(length))))
            sequence.advance(length)
            if sequence.pooled is not None:
                self._pool(sequence, next(pooled), now_us)
                continue
            samples_here = sequence.computed == len(sequence.token_ids)
            if samples_here and row in samples.failures:
                self._fail(sequence, samples.failures[row])
            else:
                self._kv.commit(sequence.table, sequence.computed)
                if samples_here:
                    logprobs = samples.logprobs.get(row)
                    self._accept(sequence, samples.tokens[row], logprobs, now_us)
            row += samples_here

    def _pool(self, sequence: Sequence, sums: list[float], now_us: int) -> None:
        """Note hidden states; with the last of them the sequence ends. Its KV serves nobody."""
        sequence.add_pooled(sums)
        if sequence.remaining:
            return
        sequence.prefill_end_us = now_us
        self._news.prefill_ended(sequence)
        try:
            self._news.embedded(sequence, sequence.embedding())
        except ArithmeticError as error:
            self._fail(sequence, str(error))
            return
        self._residents.finish(sequence, FinishReason.STOP)

    def _fail(self, sequence: Sequence, problem: str) -> None:
        """End a sequence that no token could be drawn for."""
        reason, failure = FinishReason.ERROR, Failure(Reason.ENGINE_FAILED, problem)
        if sequence.sampling.problem:
            # The request's own doing: no other attempt would go better, and a fault counted
            # here would keep everybody's work from a worker that is well.
            reason = FinishReason.ABORT
            failure = Failure(Reason.INVALID_FIELD, problem, "grammar")
        self._residents.finish(sequence, reason, failure, discard=True)

    def _accept(
        self, sequence: Sequence, token_id: int, logprobs: TokenLogprobs | None, now_us: int
    ) -> None:
        if not sequence.first_token_us:
            sequence.prefill_end_us = sequence.first_token_us = now_us
            self._news.prefill_ended(sequence)
        reason = sequence.take(token_id)
        delta = self._news.sampled(sequence, token_id, logprobs)
        if reason is None:
            self._owed.owe(sequence, delta)
        elif end := say(sequence, delta, reason):
            self._residents.finish(sequence, end.reason, end.failure)
