"""Tokens of one attempt on their way to a reader."""

from weir.worker.v1.worker_service_pb2 import AttemptDelta
from weir_worker.engine.events import Delta
from weir_worker.running_attempt import RunningAttempt
from weir_worker.sampling import TokenLogprobs
from weir_worker.terminal_records import AttemptKey

MAX_TOKENS = 512
_OVERHEAD_BYTES = 64
_LOGPROB_BYTES = 8


class PendingDelta:
    """Deltas that have not been sent yet, merged: a reader that is late gets fewer and larger ones.

    What waits for a reader is thus bounded by the tokens of its attempts, not by the time for
    which it did not read.
    """

    __slots__ = ("_attempt", "_cached", "_completion_tokens", "_logprobs", "_text", "_token_ids")

    def __init__(self, attempt: RunningAttempt) -> None:
        self._attempt = attempt
        self._token_ids: list[int] = []
        self._text: list[str] = []
        self._logprobs: list[TokenLogprobs] = []
        self._completion_tokens = 0
        # Known once the prompt is computed, and told with the first delta.
        self._cached = 0

    def add(self, delta: Delta) -> None:
        """Adds what came with one step."""
        if self._attempt.completion_tokens == len(delta.token_ids):
            self._cached = self._attempt.cached_prompt_tokens
        self._token_ids += delta.token_ids
        self._text.append(delta.text)
        self._logprobs += delta.logprobs
        self._completion_tokens = self._attempt.completion_tokens

    @property
    def key(self) -> AttemptKey:
        """Whose tokens these are."""
        return self._attempt.key

    @property
    def full(self) -> bool:
        """Whether more should go into another message, which keeps frames small."""
        return len(self._token_ids) >= MAX_TOKENS

    @property
    def size(self) -> int:
        """Roughly its bytes as a message."""
        told = sum(_LOGPROB_BYTES * (1 + len(one.top_ids)) for one in self._logprobs)
        return _OVERHEAD_BYTES + 3 * len(self._token_ids) + sum(map(len, self._text)) + told

    def write_to(self, message: AttemptDelta) -> None:
        """Fills a message."""
        request_id, number = self._attempt.key
        message.attempt.request_id = request_id
        message.attempt.number = number
        message.token_ids.extend(self._token_ids)
        message.text = "".join(self._text)
        message.completion_tokens = self._completion_tokens
        for one in self._logprobs:
            message.logprobs.add(
                logprob=one.logprob, top_ids=one.top_ids, top_logprobs=one.top_logprobs
            )
        if self._cached:
            message.cached_prompt_tokens = self._cached
