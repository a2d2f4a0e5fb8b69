"""Tokens of one attempt on their way to a reader."""

from weir.common.v1.sampling_pb2 import TokenLogprobs as TokenLogprobsProto
from weir.worker.v1.worker_service_pb2 import AttemptDelta
from weir_worker.engine.events import Delta
from weir_worker.running_attempt import RunningAttempt
from weir_worker.sampling import TokenLogprobs
from weir_worker.terminal_records import AttemptKey

MAX_TOKENS = 512
_OVERHEAD_BYTES = 64
_LOGPROB_BYTES = 8
_FLOAT_BYTES = 4


class PendingDelta:
    """Deltas that have not been sent yet, merged: a reader that is late gets fewer and larger ones.

    What waits for a reader is thus bounded by the tokens of its attempts, not by the time for
    which it did not read.
    """

    __slots__ = (
        "_attempt",
        "_cached",
        "_choice",
        "_completion_tokens",
        "_embedding",
        "_logprobs",
        "_prompt_logprobs",
        "_text",
        "_token_ids",
    )

    def __init__(self, attempt: RunningAttempt, choice: int) -> None:
        self._attempt = attempt
        self._choice = choice
        self._prompt_logprobs: list[TokenLogprobs] = []
        self._token_ids: list[int] = []
        self._text: list[str] = []
        self._logprobs: list[TokenLogprobs] = []
        self._embedding: list[float] = []
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
        self._prompt_logprobs += delta.prompt_logprobs
        if delta.embedding:
            self._embedding = delta.embedding
        self._completion_tokens = self._attempt.completion_tokens

    @property
    def key(self) -> tuple[AttemptKey, int]:
        """Whose tokens these are, and of which of its answers."""
        return self._attempt.key, self._choice

    @property
    def full(self) -> bool:
        """Whether more should go into another message, which keeps frames small."""
        return len(self._token_ids) >= MAX_TOKENS

    @property
    def size(self) -> int:
        """Roughly its bytes as a message."""
        size = _OVERHEAD_BYTES + 3 * len(self._token_ids) + sum(map(len, self._text))
        size += _FLOAT_BYTES * len(self._embedding)
        for told in (self._logprobs, self._prompt_logprobs):
            if told:
                size += sum(_LOGPROB_BYTES * (1 + len(one.top_ids)) for one in told)
        return size

    def write_to(self, message: AttemptDelta) -> None:
        """Fills a message."""
        request_id, number = self._attempt.key
        attempt = message.attempt
        attempt.request_id = request_id
        attempt.number = number
        message.token_ids.extend(self._token_ids)
        message.text = "".join(self._text)
        message.completion_tokens = self._completion_tokens
        if self._choice:
            message.choice = self._choice
        if self._logprobs:
            message.logprobs.extend(map(_logprobs_message, self._logprobs))
        if self._prompt_logprobs:
            message.prompt_logprobs.extend(map(_logprobs_message, self._prompt_logprobs))
        if self._embedding:
            message.embedding.extend(self._embedding)
        if self._cached:
            message.cached_prompt_tokens = self._cached


def _logprobs_message(told: TokenLogprobs) -> TokenLogprobsProto:
    return TokenLogprobsProto(
        logprob=told.logprob, top_ids=told.top_ids, top_logprobs=told.top_logprobs
    )
