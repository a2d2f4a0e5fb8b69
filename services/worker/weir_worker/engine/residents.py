"""The sequences that are in the engine, and their only way out."""

import logging
from collections.abc import Iterator

from weir_worker.engine.events import Failure, FinishReason
from weir_worker.engine.news import News
from weir_worker.engine.planner import StepPlanner
from weir_worker.engine.runner import StepRunner
from weir_worker.engine.sequence import Sequence, Status

logger = logging.getLogger(__name__)


class Residents:
    """Found by request; each of them is told of once, when it ends."""

    def __init__(self, planner: StepPlanner, news: News, runner: StepRunner) -> None:
        self._planner = planner
        self._news = news
        self._runner = runner
        self._sequences: dict[str, Sequence] = {}

    def __iter__(self) -> Iterator[Sequence]:
        """All of them; any may end meanwhile."""
        return iter(list(self._sequences.values()))

    def get(self, request_id: str) -> Sequence | None:
        """The newest attempt of a request, if it is here."""
        return self._sequences.get(request_id)

    def attempt(self, request_id: str, attempt: int) -> Sequence | None:
        """That very attempt, if it is here."""
        sequence = self._sequences.get(request_id)
        return sequence if sequence is not None and sequence.attempt == attempt else None

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence whose request has no other here."""
        self._sequences[sequence.request_id] = sequence
        self._planner.add(sequence)

    def finish(
        self,
        sequence: Sequence,
        reason: FinishReason,
        failure: Failure | None = None,
        *,
        discard: bool = False,
    ) -> None:
        """End a sequence; a second call does nothing. `discard`: its KV is not to be trusted."""
        if sequence.status is Status.FINISHED:
            return
        ended_well = failure is None and reason in (FinishReason.STOP, FinishReason.LENGTH)
        freed = self._planner.remove(sequence, discard=discard, keep_turn=ended_well)
        if discard and freed:
            self._clear(freed)
        del self._sequences[sequence.request_id]
        self._news.finished(sequence, reason, failure)

    def _clear(self, blocks: list[int]) -> None:
        """Wipe blocks: attention may read past a sequence's end, where a NaN would spread."""
        try:
            self._runner.clear(blocks)
        except Exception:
            logger.exception("KV blocks could not be wiped")
