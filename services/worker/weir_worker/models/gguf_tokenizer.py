"""Rebuilds a tokenizer from GGUF metadata with the `tokenizers` library."""

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing

from weir_core.model_folder import ModelFileError
from weir_worker.models.gguf_sentencepiece import sentencepiece_bpe
from weir_worker.models.gguf_vocabulary import CONTROL, USER_DEFINED, GgufVocabulary

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
    vocabulary = GgufVocabulary.read(path, metadata)
    try:
        tokenizer = _bare(vocabulary)
    except ModelFileError:
        raise
    except Exception as error:  # the library raises bare Exception
        raise ModelFileError(path, f"damaged: no usable tokenizer: {error}") from error
    tokenizer.add_tokens(
        [
            AddedToken(token, special=kind == CONTROL, normalized=False)
            for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True)
            if kind in (CONTROL, USER_DEFINED)
        ]
    )
    _add_bos(tokenizer, vocabulary)
    return tokenizer


def _bare(vocabulary: GgufVocabulary) -> Tokenizer:
    if vocabulary.model == "llama":
        return sentencepiece_bpe(vocabulary)
    if vocabulary.model == "gpt2" and vocabulary.pre in _PRE_TOKENIZERS:
        return _byte_level_bpe(vocabulary)
    raise ModelFileError(
        vocabulary.path,
        f"tokenizer {vocabulary.model!r} with pre-tokenizer {vocabulary.pre!r} is not supported; "
        f"supported are 'llama', and 'gpt2' with {', '.join(sorted(_PRE_TOKENIZERS))}",
    )


def _byte_level_bpe(vocabulary: GgufVocabulary) -> Tokenizer:
    pre = vocabulary.pre
    model = BPE(
        vocab=vocabulary.ids,
        merges=vocabulary.merges(),
        fuse_unk=False,
        ignore_merges=pre == "llama-bpe",
    )
    tokenizer = Tokenizer(model)
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(_PRE_TOKENIZERS[pre])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _add_bos(tokenizer: Tokenizer, vocabulary: GgufVocabulary) -> None:
    """Begin every text with the bos token, if the file says so or its family is known for it."""
    customary = vocabulary.model == "llama" or vocabulary.pre == "llama-bpe"
    bos = vocabulary.token("bos")
    if bos is None or not vocabulary.flag("add_bos_token", customary):
        return
    token = bos[0]
    tokenizer.post_processor = TemplateProcessing(
        single=f"{token}:0 $A:0", pair=f"{token}:0 $A:0 {token}:1 $B:1", special_tokens=[bos]
    )
