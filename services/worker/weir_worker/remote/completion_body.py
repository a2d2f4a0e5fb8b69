"""An attempt as a request of the completions API."""

from collections.abc import Callable
from typing import Any

from weir_worker.engine.commands import Submit
from weir_worker.remote.answers import refuse_grammar, refuse_unless
from weir_worker.remote.dialect import Dialect

Untokenise = Callable[[list[int]], str]


def completion_body(
    submit: Submit, model: str, dialect: Dialect, untokenise: Untokenise
) -> dict[str, Any]:
    """The JSON body.

    Sampling fields are sent even where they say nothing: engines have defaults of their own
    (llama.cpp samples from the 40 likeliest tokens unless told otherwise).

    Raises:
        WeirError: UNSUPPORTED_FIELD if the engine lacks a field that was asked for.
    """
    ids = submit.prompt_token_ids
    body: dict[str, Any] = {
        "model": model,
        "prompt": ids if dialect.token_prompts else untokenise(ids),
        "max_tokens": submit.max_new_tokens,
        "temperature": submit.sampling.temperature,
        "top_p": submit.sampling.top_p,
        "stream": True,
    }
    if dialect.usage_in_streams:
        body["stream_options"] = {"include_usage": True}
    if dialect.returns_ids:
        body |= {"return_token_ids": True, "add_special_tokens": False}
    if submit.sampling.seed is not None:
        body["seed"] = submit.sampling.seed
    if submit.stop:
        body["stop"] = submit.stop
    return body | _shaping(submit, dialect) | _ending(submit, dialect)


def _shaping(submit: Submit, dialect: Dialect) -> dict[str, Any]:
    """What changes the distribution."""
    sampling = submit.sampling
    top_k = max(0, sampling.top_k)
    fields = {
        **_field("top_k", top_k, 0, known=dialect.top_k_off is not None),
        **_field("min_p", sampling.min_p, 0.0, known=dialect.min_p),
        **_field(
            "repetition_penalty",
            sampling.repetition_penalty,
            1.0,
            known=dialect.repetition is not None,
            name=dialect.repetition,
        ),
        **_field("presence_penalty", sampling.presence_penalty, 0.0, known=dialect.penalties),
        **_field("frequency_penalty", sampling.frequency_penalty, 0.0, known=dialect.penalties),
    }
    if not top_k and "top_k" in fields:
        fields["top_k"] = dialect.top_k_off
    bias = {str(token): value for token, value in sampling.logit_bias.items()}
    if _field("logit_bias", bias, {}, known=dialect.logit_bias) and bias:
        fields["logit_bias"] = bias
    for name in ("logprobs", "prompt_logprobs"):
        refuse_unless(name, getattr(sampling, name) is None)
    refuse_grammar(submit.grammar)
    return fields


def _ending(submit: Submit, dialect: Dialect) -> dict[str, Any]:
    """What ends the answer; left out where it says nothing."""
    ids, least = submit.stop_token_ids, submit.sampling.min_tokens
    fields = {
        **_field("stop_token_ids", ids, [], known=dialect.stop_token_ids),
        **_field("ignore_eos", submit.ignore_eos, False, known=dialect.ignore_eos),
        **_field("min_tokens", least, 0, known=dialect.min_tokens),
    }
    return {name: value for name, value in fields.items() if value}


def _field(
    ours: str, value: Any, nothing: Any, *, known: bool, name: str | None = None
) -> dict[str, Any]:
    """The field under its name there; nothing if it is not known and says nothing."""
    if known:
        return {name or ours: value}
    refuse_unless(ours, value == nothing)
    return {}
