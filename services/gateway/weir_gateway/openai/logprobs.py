"""Log-probabilities in OpenAI's two forms."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from weir_core.token_bytes import TokenBytes
from weir_gateway.text.token_trail import ToldToken


def chat_logprobs(tokens: Sequence[ToldToken], token_bytes: TokenBytes) -> dict[str, Any]:
    """`logprobs` of a chat completion's choice."""
    content = []
    for token in tokens:
        entry = _entry(token.data, token.logprobs.logprob if token.logprobs else 0.0)
        entry["top_logprobs"] = [
            _entry(token_bytes.of(rival), logprob) for rival, logprob in _rivals(token)
        ]
        content.append(entry)
    return {"content": content, "refusal": None}


def text_logprobs(tokens: Sequence[ToldToken], token_bytes: TokenBytes) -> dict[str, Any]:
    """`logprobs` of a text completion's choice; the drawn token is among the likeliest always."""
    return {
        "tokens": [text_of(token.data) for token in tokens],
        "token_logprobs": [token.logprobs.logprob if token.logprobs else None for token in tokens],
        "top_logprobs": [_top(token, token_bytes) for token in tokens],
        "text_offset": [token.offset for token in tokens],
    }


def text_of(data: bytes) -> str:
    """A token as text completions write it; one that is not text by itself by its bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def _top(token: ToldToken, token_bytes: TokenBytes) -> dict[str, float] | None:
    if token.logprobs is None:
        return None
    top = {text_of(token_bytes.of(rival)): logprob for rival, logprob in _rivals(token)}
    top.setdefault(text_of(token.data), token.logprobs.logprob)
    return top


def _rivals(token: ToldToken) -> Iterator[tuple[int, float]]:
    told = token.logprobs
    if told is None:
        return iter(())
    logprobs: Iterable[float] = told.top_logprobs
    return zip(told.top_ids, logprobs, strict=False)


def _entry(data: bytes, logprob: float) -> dict[str, Any]:
    # A character's part is written as OpenAI does: the byte as text, and exact in `bytes`.
    text = data.decode(errors="backslashreplace")
    return {"token": text, "logprob": logprob, "bytes": list(data)}
