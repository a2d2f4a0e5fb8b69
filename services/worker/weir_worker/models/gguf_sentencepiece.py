"""SentencePiece BPE (Llama 2, Mistral) in the form of the `tokenizers` library."""

from tokenizers import Tokenizer, decoders, normalizers
from tokenizers.models import BPE

from weir_worker.models.gguf_vocabulary import UNKNOWN, GgufVocabulary

_SPACE = "\u2581"


def sentencepiece_bpe(vocabulary: GgufVocabulary) -> Tokenizer:
    """A tokenizer with byte fallback, whose spaces are written as U+2581.

    Raises:
        ModelFileError: the scores do not fit the tokens.
    """
    unknown = next(
        (t for t, k in zip(vocabulary.tokens, vocabulary.kinds, strict=True) if k == UNKNOWN), None
    )
    prefix = vocabulary.flag("add_space_prefix", True)
    tokenizer = Tokenizer(
        BPE(
            vocab=vocabulary.ids,
            merges=_merges(vocabulary),
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    steps = [normalizers.Prepend(_SPACE)] if prefix else []
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", _SPACE)])
    unprefix = [decoders.Strip(" ", 1, 0)] if prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *unprefix]
    )
    return tokenizer


def _merges(vocabulary: GgufVocabulary) -> list[tuple[str, str]]:
    """Every way to put a token together from two, the best-scored tokens first.

    SentencePiece keeps no merges: it joins the neighbours that make the best-scored token.
    """
    ids, found = vocabulary.ids, []
    for token, score in zip(vocabulary.tokens, vocabulary.scores(), strict=True):
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in ids and right in ids:
                found.append((-score, ids[left], ids[right], left, right))
    return [(left, right) for *_, left, right in sorted(found)]
