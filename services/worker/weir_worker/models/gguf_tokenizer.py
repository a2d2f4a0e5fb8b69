"""Rebuilds a byte-level BPE tokenizer from GGUF metadata with the `tokenizers` library."""

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing

from weir_core.model_folder import ModelFileError

_CONTROL, _USER_DEFINED = 3, 4
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
_GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _split(pattern: str) -> Any:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


_PRE_TOKENIZERS: dict[str, list[Any]] = {
    "default": [_GPT2],
    "gpt-2": [_GPT2],
    "smollm": [pre_tokenizers.Digits(individual_digits=True), _GPT2],
    "llama-bpe": [_split(_LLAMA3), _BYTES],
    "qwen2": [_split(_QWEN2), _BYTES],
}


def build_tokenizer(path: Path, metadata: dict[str, Any]) -> Tokenizer:
    """The tokenizer that the file's `tokenizer.ggml.*` entries describe.

    Raises:
        ModelFileError: another kind of tokenizer, or its entries contradict each other.
    """
    model, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre", "default")
    if model != "gpt2" or pre not in _PRE_TOKENIZERS:
        raise ModelFileError(
            path,
            f"tokenizer {model!r} with pre-tokenizer {pre!r} is not supported; supported are "
            f"'gpt2' with {', '.join(sorted(_PRE_TOKENIZERS))}",
        )
    tokens = _texts(path, metadata, "tokenizer.ggml.tokens")
    tokenizer = Tokenizer(_bpe(path, metadata, tokens, ignore_merges=pre == "llama-bpe"))
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(_PRE_TOKENIZERS[pre])
    tokenizer.decoder = decoders.ByteLevel()
    _add_special(path, tokenizer, metadata, tokens)
    _add_bos(tokenizer, metadata, tokens, default=pre == "llama-bpe")
    return tokenizer


def _bpe(path: Path, metadata: dict[str, Any], tokens: list[str], *, ignore_merges: bool) -> BPE:
    vocabulary = {token: index for index, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise ModelFileError(path, "damaged: tokenizer.ggml.tokens holds a token twice")
    merges = []
    for merge in _texts(path, metadata, "tokenizer.ggml.merges"):
        left, _, right = merge.partition(" ")
        if left + right not in vocabulary:
            raise ModelFileError(path, f"damaged: merge {merge!r} makes no token")
        merges.append((left, right))
    try:
        return BPE(vocab=vocabulary, merges=merges, fuse_unk=False, ignore_merges=ignore_merges)
    except Exception as error:  # the library raises bare Exception
        raise ModelFileError(path, f"damaged: the merges are not usable: {error}") from error


def _add_special(
    path: Path, tokenizer: Tokenizer, metadata: dict[str, Any], tokens: list[str]
) -> None:
    kinds = metadata.get("tokenizer.ggml.token_type", [])
    if not isinstance(kinds, list) or len(kinds) not in (0, len(tokens)):
        raise ModelFileError(path, "damaged: tokenizer.ggml.token_type does not fit the tokens")
    added = [
        AddedToken(token, special=kind == _CONTROL, normalized=False)
        for token, kind in zip(tokens, kinds, strict=False)
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    tokenizer.add_tokens(added)


def _add_bos(
    tokenizer: Tokenizer, metadata: dict[str, Any], tokens: list[str], *, default: bool
) -> None:
    bos = metadata.get("tokenizer.ggml.bos_token_id")
    wanted = metadata.get("tokenizer.ggml.add_bos_token", default)
    if not wanted or not isinstance(bos, int) or not 0 <= bos < len(tokens):
        return
    token = tokens[bos]
    tokenizer.post_processor = TemplateProcessing(
        single=f"{token}:0 $A:0",
        pair=f"{token}:0 $A:0 {token}:1 $B:1",
        special_tokens=[(token, bos)],
    )


def _texts(path: Path, metadata: dict[str, Any], key: str) -> list[str]:
    value = metadata.get(key)
    if not isinstance(value, list) or not value or not isinstance(value[0], str):
        raise ModelFileError(path, f"{key} is missing or is not an array of strings")
    return value
