"""Sampling fields of a body, OpenAI's and our own."""

from dataclasses import replace
from typing import Any

from weir_core.errors import InvalidField
from weir_gateway.intake.sampling_request import SamplingRequest
from weir_gateway.intake.shape import Shape
from weir_gateway.openai.fields import Fields

_MOST_CHAT_LOGPROBS = 20
_MOST_TEXT_LOGPROBS = 5
_INT32 = 2**31
_RARE = frozenset(
    {
        "best_of",
        "echo",
        "frequency_penalty",
        "ignore_eos",
        "logit_bias",
        "logprobs",
        "min_p",
        "min_tokens",
        "n",
        "presence_penalty",
        "repetition_penalty",
        "stop_token_ids",
        "top_logprobs",
    }
)


def to_sampling(fields: Fields, *, chat: bool) -> SamplingRequest:
    """How the tokens of a body's answer are drawn.

    Raises:
        WeirError: INVALID_FIELD or UNSUPPORTED_FIELD.
    """
    basic = SamplingRequest(
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        top_k=fields.integer("top_k"),
        seed=fields.integer("seed"),
        stop=_stop(fields),
    )
    return _with_rare(basic, fields, chat=chat) if fields.has_any(_RARE) else basic


def is_id(value: object) -> bool:
    """Whether a JSON value can be a token id."""
    return type(value) is int


def _with_rare(basic: SamplingRequest, fields: Fields, *, chat: bool) -> SamplingRequest:
    logprobs = _chat_logprobs(fields) if chat else _text_logprobs(fields)
    echo = not chat and fields.boolean("echo")
    return replace(
        basic,
        stop_token_ids=_stop_ids(fields),
        ignore_eos=fields.boolean("ignore_eos"),
        min_p=fields.number("min_p"),
        repetition_penalty=fields.number("repetition_penalty"),
        presence_penalty=fields.number("presence_penalty"),
        frequency_penalty=fields.number("frequency_penalty"),
        min_tokens=_min_tokens(fields),
        logit_bias=_logit_bias(fields),
        logprobs=logprobs,
        prompt_logprobs=logprobs if echo else None,
        n=_n(fields),
    )


def _chat_logprobs(fields: Fields) -> int | None:
    wanted = fields.boolean("logprobs")
    top = fields.integer("top_logprobs")
    if top is not None and not 0 <= top <= _MOST_CHAT_LOGPROBS:
        raise fields.invalid("top_logprobs", top, f"from 0 to {_MOST_CHAT_LOGPROBS}")
    if top and not wanted:
        raise fields.invalid("top_logprobs", top, "left out, or sent with logprobs: true")
    return (top or 0) if wanted else None


def _text_logprobs(fields: Fields) -> int | None:
    # `false` is what chat clients send; here the field is a number.
    if fields.raw("logprobs") is False:
        return None
    logprobs = fields.integer("logprobs")
    if logprobs is not None and not 0 <= logprobs <= _MOST_TEXT_LOGPROBS:
        raise fields.invalid("logprobs", logprobs, f"from 0 to {_MOST_TEXT_LOGPROBS}")
    return logprobs


def _n(fields: Fields) -> int:
    n = fields.integer("n")
    best_of = fields.integer("best_of")
    answers = 1 if n is None else n
    if best_of is not None and best_of != answers:
        raise fields.unsupported(
            "best_of", f"it must equal n ({answers}): every answer that is made is returned"
        )
    return answers


def _min_tokens(fields: Fields) -> int:
    least = fields.integer("min_tokens") or 0
    if not -_INT32 < least < _INT32:
        raise fields.invalid("min_tokens", least, "0 or more, and at most max_tokens")
    return least


def _logit_bias(fields: Fields) -> tuple[tuple[int, float], ...]:
    value = fields.raw("logit_bias")
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise fields.invalid("logit_bias", Shape(value), "an object from token ids to numbers")
    return tuple(_bias(fields, key, bias) for key, bias in value.items())


def _bias(fields: Fields, key: str, bias: Any) -> tuple[int, float]:
    if not (key.isascii() and key.isdigit() and len(key) < len(str(_INT32))):
        raise fields.invalid("logit_bias", f"the key {key[:32]!r}", "token ids as keys")
    if type(bias) not in (int, float):
        raise InvalidField(f"logit_bias[{key}]", Shape(bias), "a number from -100 to 100")
    try:
        return int(key), float(bias)
    except OverflowError:
        raise InvalidField(f"logit_bias[{key}]", "a huge number", "from -100 to 100") from None


def _stop(fields: Fields) -> tuple[str, ...]:
    value = fields.raw("stop")
    if value is None:
        return ()
    values = value if isinstance(value, list) else [value]
    for at, entry in enumerate(values):
        if not isinstance(entry, str):
            name = f"stop[{at}]" if isinstance(value, list) else "stop"
            raise fields.invalid(name, Shape(entry), "a string")
    return tuple(values)


def _stop_ids(fields: Fields) -> tuple[int, ...]:
    values = fields.array("stop_token_ids")
    for at, entry in enumerate(values):
        if not is_id(entry):
            raise fields.invalid(f"stop_token_ids[{at}]", Shape(entry), "an integer")
    return tuple(values)
