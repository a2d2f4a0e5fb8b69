"""Bounds of the sampling fields; each refusal names the field, the value and the bound."""

import math
from collections.abc import Sequence

from weir_core.errors import InvalidField
from weir_gateway.intake.generation_request import FieldNames
from weir_gateway.intake.sampling_request import SamplingRequest
from weir_gateway.intake.shape import Shape
from weir_gateway.intake.text_checks import check_text

MAX_STOPS = 16
MAX_STOP_CHARACTERS = 256
MAX_STOP_IDS = 64
MAX_BIASES = 300
MAX_LOGPROBS = 20
MAX_CHOICES = 8
_INT64 = 2**63
_RANGES = (
    ("min_p", 0.0, 1.0),
    ("presence_penalty", -2.0, 2.0),
    ("frequency_penalty", -2.0, 2.0),
)


def check_sampling(sampling: SamplingRequest, names: FieldNames) -> None:
    """Checks everything that needs no model.

    Raises:
        InvalidField: a value is out of its bounds.
    """
    _check_number(names.of_sampling("temperature"), sampling.temperature, 0.0, 2.0)
    _check_number(names.of_sampling("top_p"), sampling.top_p, 0.0, 1.0, above=True)
    if sampling.top_k is not None and sampling.top_k < -1:
        raise InvalidField(
            names.of_sampling("top_k"), sampling.top_k, "-1 or 0 (off), or 1 and more"
        )
    if sampling.seed is not None and not -_INT64 <= sampling.seed < _INT64:
        raise InvalidField(names.of_sampling("seed"), sampling.seed, "an integer of 64 bits")
    _check_stops(sampling.stop, names.of_sampling("stop"))
    if len(sampling.stop_token_ids) > MAX_STOP_IDS:
        raise InvalidField(
            names.of_sampling("stop_token_ids"),
            Shape(sampling.stop_token_ids),
            f"at most {MAX_STOP_IDS} ids",
        )
    _check_penalties(sampling, names)
    if sampling.logit_bias:
        _check_biases(sampling.logit_bias, names.of_sampling("logit_bias"))
    for name in ("logprobs", "prompt_logprobs"):
        value = getattr(sampling, name)
        if value is not None and not 0 <= value <= MAX_LOGPROBS:
            raise InvalidField(names.of_sampling(name), value, f"from 0 to {MAX_LOGPROBS}")
    if not 1 <= sampling.n <= MAX_CHOICES:
        raise InvalidField(names.of_sampling("n"), sampling.n, f"from 1 to {MAX_CHOICES}")


def _check_penalties(sampling: SamplingRequest, names: FieldNames) -> None:
    for name, low, high in _RANGES:
        value = getattr(sampling, name)
        if value is not None:
            _check_number(names.of_sampling(name), value, low, high)
    repetition = sampling.repetition_penalty
    if repetition is not None:
        field = names.of_sampling("repetition_penalty")
        _check_number(field, repetition, 0.0, 10.0, above=True)
    if sampling.min_tokens < 0:
        raise InvalidField(names.of_sampling("min_tokens"), sampling.min_tokens, "0 or more")


def _check_biases(biases: Sequence[tuple[int, float]], field: str) -> None:
    if len(biases) > MAX_BIASES:
        raise InvalidField(field, f"{len(biases)} token ids", f"at most {MAX_BIASES}")
    for token_id, bias in biases:
        _check_number(f"{field}[{token_id}]", bias, -100.0, 100.0)


def _check_stops(stops: Sequence[str], field: str) -> None:
    if len(stops) > MAX_STOPS:
        raise InvalidField(field, Shape(stops), f"at most {MAX_STOPS} strings")
    for at, stop in enumerate(stops):
        if not 1 <= len(stop) <= MAX_STOP_CHARACTERS:
            bound = f"1 to {MAX_STOP_CHARACTERS} characters"
            raise InvalidField(f"{field}[{at}]", Shape(stop), bound)
        check_text(f"{field}[{at}]", stop)


def _check_number(
    field: str, value: float | None, low: float, high: float, *, above: bool = False
) -> None:
    if value is None:
        return
    fits = math.isfinite(value) and (low < value if above else low <= value) and value <= high
    if not fits:
        start = f"above {low:g}" if above else f"from {low:g}"
        end = f"and at most {high:g}" if above else f"to {high:g}"
        raise InvalidField(field, value, f"a finite number {start} {end}")
