"""How one request's tokens are drawn."""

import math

import msgspec

from weir_core.errors import InvalidField

COOLEST = 0.01
HOTTEST = 2.0
MOST_LOGPROBS = 20
MOST_BIASES = 300
_STRONGEST_REPETITION = 10.0
_STRONGEST_PENALTY = 2.0
_STRONGEST_BIAS = 100.0
_INT64 = 2**63


class SamplingParams(msgspec.Struct, frozen=True, array_like=True):
    """Validated sampling parameters of one request.

    Attributes:
        temperature: 0 to 2; 0 is greedy, values below 0.01 count as 0.01.
        top_p: above 0, at most 1.
        top_k: most likely tokens to choose from; 0 or -1 is off.
        seed: draws are a function of seed and position alone; None: the engine picks one.
        min_p: tokens less likely than this part of the likeliest are left out; 0 to 1.
        repetition_penalty: divides (or multiplies, below zero) the logits of tokens that prompt
            or output hold; above 0, at most 10; 1 is off.
        presence_penalty: taken from the logits of tokens that the output holds; -2 to 2.
        frequency_penalty: the same, once for each time that the output holds it; -2 to 2.
        min_tokens: output before which nothing of `stop_token_ids` and end of sequence is drawn.
        logit_bias: token id -> what is added to its logit, -100 to 100; at most 300 ids.
        logprobs: likeliest tokens to tell beside each drawn one, 0 to 20; None: tell nothing.
        prompt_logprobs: the same beside each token of the prompt but the first.

    Raises:
        InvalidField: a value is not finite or out of its range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    min_tokens: int = 0
    logit_bias: dict[int, float] = {}
    logprobs: int | None = None
    prompt_logprobs: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and 0.0 <= self.temperature <= HOTTEST):
            raise InvalidField("temperature", self.temperature, "a finite number from 0 to 2")
        if not (math.isfinite(self.top_p) and 0.0 < self.top_p <= 1.0):
            raise InvalidField("top_p", self.top_p, "a finite number above 0 and at most 1")
        if not -1 <= self.top_k < 2**31:
            raise InvalidField("top_k", self.top_k, "0 or -1 (off), or at least 1")
        if self.seed is not None and not -_INT64 <= self.seed < _INT64:
            raise InvalidField("seed", self.seed, "a signed 64-bit integer")
        self._check_adjustments()
        for name in ("logprobs", "prompt_logprobs"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= MOST_LOGPROBS:
                raise InvalidField(name, value, f"0 to {MOST_LOGPROBS}")

    def _check_adjustments(self) -> None:
        if not (math.isfinite(self.min_p) and 0.0 <= self.min_p <= 1.0):
            raise InvalidField("min_p", self.min_p, "a finite number from 0 to 1")
        repetition = self.repetition_penalty
        if not (math.isfinite(repetition) and 0.0 < repetition <= _STRONGEST_REPETITION):
            bound = f"a finite number above 0 and at most {_STRONGEST_REPETITION:g}"
            raise InvalidField("repetition_penalty", repetition, bound)
        for name in ("presence_penalty", "frequency_penalty"):
            value = getattr(self, name)
            if not (math.isfinite(value) and abs(value) <= _STRONGEST_PENALTY):
                raise InvalidField(name, value, "a finite number from -2 to 2")
        if not 0 <= self.min_tokens < 2**31:
            raise InvalidField("min_tokens", self.min_tokens, "0 or more")
        if len(self.logit_bias) > MOST_BIASES:
            raise InvalidField(
                "logit_bias", f"{len(self.logit_bias)} ids", f"at most {MOST_BIASES}"
            )
        for token_id, bias in self.logit_bias.items():
            if not (math.isfinite(bias) and abs(bias) <= _STRONGEST_BIAS):
                bound = "a finite number from -100 to 100"
                raise InvalidField(f"logit_bias[{token_id}]", bias, bound)

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always taken."""
        return self.temperature == 0.0 or self.top_k == 1

    @property
    def penalises(self) -> bool:
        """Whether earlier tokens change the logits."""
        return bool(
            self.repetition_penalty != 1.0 or self.presence_penalty or self.frequency_penalty
        )

    @property
    def adjusts(self) -> bool:
        """Whether logits are changed before a token is drawn."""
        return bool(self.penalises or self.min_tokens or self.logit_bias)
