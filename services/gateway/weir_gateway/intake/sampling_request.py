"""How one request wants its tokens drawn, as it came; nothing is checked but types."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRequest:
    """None takes the default of model and tenant, or is off.

    Attributes:
        logit_bias: token ids and what is added to their logits.
        logprobs: likeliest tokens to tell beside each drawn one; None: tell nothing.
        prompt_logprobs: the same beside each token of the prompt.
        n: answers to make.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    min_tokens: int = 0
    logit_bias: tuple[tuple[int, float], ...] = ()
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    n: int = 1
