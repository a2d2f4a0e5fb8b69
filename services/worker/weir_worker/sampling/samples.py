"""The outcome of sampling one step."""

from dataclasses import dataclass, field

from weir_worker.sampling.token_logprobs import TokenLogprobs


@dataclass(slots=True)
class Samples:
    """Tokens of one step.

    Attributes:
        tokens: one for each row; meaningless where the row failed.
        failures: row -> why it has no token.
        logprobs: row -> its token's log-probabilities, where they are asked for.
        prompt_logprobs: those of the batch's told rows, in order.
        pooled: the sums over the batch's pooled rows, in order.
    """

    tokens: list[int]
    failures: dict[int, str] = field(default_factory=dict)
    logprobs: dict[int, TokenLogprobs] = field(default_factory=dict)
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)
    pooled: list[list[float]] = field(default_factory=list)
