"""What has become of every request so far."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weir_core.errors import WeirError
from weir_sim.fleet.sequence import SimSequence
from weir_sim.outcome import Decision, Ending, RequestRecord
from weir_sim.workload import SimRequest


@dataclass(slots=True)
class Life:
    """A request's life while it lasts; moments in microseconds, -1 before they came."""

    request: SimRequest
    queued_us: int = -1
    dispatched_us: int = -1
    first_token_us: int = -1
    end_us: int = -1
    ending: Ending = Ending.UNFINISHED
    output_tokens: int = 0
    gaps_s: tuple[float, float] = (0.0, 0.0)
    cached_tokens: int = 0
    computed_tokens: int = 0
    attempts: int = 0
    preemptions: int = 0
    worker: str = ""
    reason: str = ""


class Journal:
    """Keeps a `Life` for each request; every request ends once (conservation).

    Args:
        keep_gaps: keep every time between two tokens, not its summary by request alone.
    """

    def __init__(self, *, keep_gaps: bool = False) -> None:
        self._gaps: list[NDArray[np.int64]] | None = [] if keep_gaps else None
        self.lives: dict[str, Life] = {}
        self.decisions: list[Decision] = []
        self.refused: Counter[str] = Counter()
        self.ended = 0

    def arrived(self, request: SimRequest) -> None:
        """A request came. Raises ValueError when its id is taken."""
        if request.request_id in self.lives:
            raise ValueError(f"request id {request.request_id!r} comes twice in the workload")
        self.lives[request.request_id] = Life(request)

    def queued(self, request_id: str, now_us: int) -> None:
        """It entered the queue, for the first time or again."""
        life = self.lives[request_id]
        if life.queued_us < 0:
            life.queued_us = now_us

    def dispatched(self, request_id: str, attempt: int, worker_id: str, now_us: int) -> None:
        """The scheduler has placed it."""
        life = self.lives[request_id]
        life.dispatched_us = now_us
        life.attempts = attempt
        life.worker = worker_id
        self.decisions.append(Decision(now_us / 1e6, request_id, attempt, worker_id))

    def first_token(self, request_id: str, now_us: int) -> None:
        """Its first token reached the gateway."""
        life = self.lives[request_id]
        if life.first_token_us < 0:
            life.first_token_us = now_us

    def left_worker(self, sequence: SimSequence) -> None:
        """An attempt is gone from its worker, however it ended."""
        life = self.lives[sequence.key.request_id]
        life.computed_tokens += (
            max(sequence.high_water, sequence.computed) - sequence.cached + sequence.recomputed
        )
        life.cached_tokens = sequence.cached
        life.preemptions += sequence.preemptions
        life.output_tokens = sequence.output
        life.gaps_s = sequence.gap_summary_s()
        if self._gaps is not None:
            self._gaps.extend(sequence.gaps)

    def gaps_s(self) -> NDArray[np.float64] | None:
        """Every time between two tokens of one answer, seconds; None when not kept."""
        if self._gaps is None:
            return None
        return np.concatenate([np.empty(0, dtype=np.int64), *self._gaps]) / 1e6

    def completed(self, request_id: str, now_us: int) -> None:
        """All of its answer has reached the gateway."""
        self._end(request_id, Ending.COMPLETED, now_us)

    def rejected(self, request_id: str, cause: WeirError, now_us: int) -> None:
        """The scheduler will not run it."""
        self._end(request_id, Ending.REJECTED, now_us, str(cause.reason))

    def refused_by_limiter(self, request_id: str, why: str, now_us: int) -> None:
        """The limiter did not let it pass."""
        self._end(request_id, Ending.REFUSED, now_us, why)

    def lost(self, request_id: str, cause: WeirError, now_us: int) -> None:
        """Its attempt broke after something was streamed."""
        self._end(request_id, Ending.LOST, now_us, str(cause.reason))

    def records(self) -> tuple[RequestRecord, ...]:
        """Every request, in order of arrival."""
        return tuple(_record(life) for life in self.lives.values())

    def _end(self, request_id: str, ending: Ending, now_us: int, reason: str = "") -> None:
        life = self.lives[request_id]
        if life.ending is not Ending.UNFINISHED:
            raise ValueError(f"request {request_id!r} ends twice: {life.ending}, then {ending}")
        life.ending, life.end_us, life.reason = ending, now_us, reason
        self.ended += 1
        if reason:
            self.refused[reason] += 1


def _record(life: Life) -> RequestRecord:
    return RequestRecord(
        request=life.request,
        outcome=life.ending,
        queued_s=_seconds(life.queued_us),
        dispatched_s=_seconds(life.dispatched_us),
        first_token_s=_seconds(life.first_token_us),
        end_s=_seconds(life.end_us),
        output_tokens=life.output_tokens,
        gap_max_s=life.gaps_s[0],
        gap_p99_s=life.gaps_s[1],
        cached_tokens=life.cached_tokens,
        computed_tokens=life.computed_tokens,
        attempts=life.attempts,
        preemptions=life.preemptions,
        worker=life.worker,
        reason=life.reason,
    )


def _seconds(us: int) -> float | None:
    return None if us < 0 else us / 1e6
