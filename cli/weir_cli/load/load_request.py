"""One request of a load, before it is sent."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What is asked, when and as whom.

    Attributes:
        index: its place in the load, from 0.
        at_s: when it is to be sent, seconds from the begin of the load.
        tenant: as the load calls whoever asks.
        prompt_tokens: wanted length of the prompt.
        output_tokens: wanted length of the answer.
    """

    index: int
    at_s: float
    tenant: str
    prompt_tokens: int
    output_tokens: int
