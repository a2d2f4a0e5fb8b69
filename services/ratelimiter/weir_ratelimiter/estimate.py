"""How much output is reserved for a request."""

from weir_ratelimiter.ask import Ask
from weir_ratelimiter.directory.resolution import Resolution
from weir_ratelimiter.domain.output_history import OutputHistory
from weir_ratelimiter.domain.subject import Subject

_LEAST = 16


class OutputEstimate:
    """All that is possible, or what is likely, by the policy of the tenant."""

    def __init__(self) -> None:
        self._history = OutputHistory()

    def observe(self, subject: Subject, completion_tokens: int) -> None:
        """Take note of one answer."""
        self._history.observe(subject.tenant_id, subject.model, completion_tokens)

    def of(self, ask: Ask, resolution: Resolution) -> int:
        """Tokens to reserve; an estimate is at most what the limits can ever hold."""
        if ask.at_once or not resolution.estimate:
            return ask.max_new_tokens
        subject = ask.subject
        likely = self._history.likely_output(subject.tenant_id, subject.model)
        wanted = ask.max_new_tokens if likely is None else max(likely, _LEAST)
        room = resolution.most_output(ask.prompt_tokens)
        return max(1, min(ask.max_new_tokens, wanted if room is None else min(wanted, room)))
