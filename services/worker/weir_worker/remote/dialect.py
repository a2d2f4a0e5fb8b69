"""What the OpenAI-compatible engines know beyond the API's own fields, and what they do not."""

from typing import Literal

import msgspec

DialectName = Literal["openai", "vllm", "sglang", "tgi", "llama.cpp", "llama-cpp-python"]


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """How one engine is spoken to.

    A field that it lacks is refused unless it has the value that means nothing: an engine
    that ignores what it does not know would answer something else than was asked for.

    Attributes:
        token_prompts: takes the prompt as token ids; else as text, which it tokenises itself.
        top_k_off: value of `top_k` that means all tokens; None: it has no `top_k`.
        repetition: its name of `repetition_penalty`; None: it has none.
        min_p, min_tokens, stop_token_ids, ignore_eos, logit_bias: fields that it has.
        penalties: it has `presence_penalty` and `frequency_penalty`.
        returns_ids: tells token ids when asked by `return_token_ids`.
        usage_in_streams: counts tokens in the last event when asked by `stream_options`.
        cache_salt: finds a prefix only with the `cache_salt` that it was computed with.
    """

    token_prompts: bool = True
    top_k_off: int | None = None
    repetition: str | None = None
    min_p: bool = False
    min_tokens: bool = False
    stop_token_ids: bool = False
    ignore_eos: bool = False
    logit_bias: bool = True
    penalties: bool = True
    returns_ids: bool = False
    usage_in_streams: bool = True
    cache_salt: bool = False


DIALECTS: dict[DialectName, Dialect] = {
    "openai": Dialect(),
    "vllm": Dialect(
        top_k_off=0,
        repetition="repetition_penalty",
        min_p=True,
        min_tokens=True,
        stop_token_ids=True,
        ignore_eos=True,
        returns_ids=True,
        cache_salt=True,
    ),
    "sglang": Dialect(
        top_k_off=-1,
        repetition="repetition_penalty",
        min_p=True,
        min_tokens=True,
        stop_token_ids=True,
        ignore_eos=True,
    ),
    # Its completions take text alone.
    "tgi": Dialect(token_prompts=False, logit_bias=False),
    "llama.cpp": Dialect(top_k_off=0, repetition="repeat_penalty", min_p=True, ignore_eos=True),
    "llama-cpp-python": Dialect(
        token_prompts=False,
        top_k_off=0,
        repetition="repeat_penalty",
        min_p=True,
        usage_in_streams=False,
        # Its names of tokens are strings of another form.
        logit_bias=False,
    ),
}
