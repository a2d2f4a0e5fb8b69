"""One of the answers that a request came to."""

from dataclasses import dataclass, field

from weir.gateway.v1.inference_service_pb2 import Delta, TokenInfo


@dataclass(slots=True)
class Choice:
    """One answer.

    Attributes:
        text: the whole text.
        finish_reason: `stop` or `length`; `abort` when it was ended early by the server.
        logprobs: the tokens of the text, if they were asked for.
        prompt_logprobs: the tokens of the prompt but the first, likewise; with answer 0 alone.
    """

    text: str = ""
    finish_reason: str = ""
    logprobs: list[TokenInfo] = field(default_factory=list)
    prompt_logprobs: list[TokenInfo] = field(default_factory=list)

    def add(self, delta: Delta) -> None:
        """Continues it."""
        self.text += delta.text
        self.logprobs.extend(delta.logprobs)
        self.prompt_logprobs.extend(delta.prompt_logprobs)
