"""One attempt in flight, as the server process sees it."""

from collections.abc import Callable

from weir_core.errors import Reason
from weir_worker.engine.commands import Submit
from weir_worker.engine.events import (
    Delta,
    Failure,
    FinishReason,
    Prefilled,
    Progress,
    Terminal,
    Usage,
)

EngineEvent = Delta | Prefilled | Terminal
EventSink = Callable[[EngineEvent], None]


class Ticket:
    """Where the events of an attempt go, and what it has used as far as is known."""

    __slots__ = (
        "_attempt",
        "_cached",
        "_prompt",
        "_request_id",
        "_tenant",
        "completion_tokens",
        "sink",
    )

    def __init__(self, submit: Submit, sink: EventSink | None) -> None:
        self._request_id = submit.request_id
        self._attempt = submit.attempt
        self._tenant = submit.tenant
        self._prompt = 0
        self._cached = 0
        self.completion_tokens = 0
        self.sink = sink

    def note(self, event: Prefilled | Progress) -> None:
        """Remember how much of the prompt is computed."""
        self._prompt = event.prompt_tokens
        self._cached = event.cached_prompt_tokens

    def lost(self, reason: Reason, message: str, now_us: int) -> Terminal:
        """Make the terminal that the engine can no longer send; its usage is a lower bound."""
        return Terminal(
            self._request_id,
            self._attempt,
            self._tenant,
            FinishReason.ERROR,
            Usage(self._prompt, self._cached, self.completion_tokens),
            Failure(reason, message),
            end_us=now_us,
        )
