"""Chooses the detokeniser for a tokenizer."""

from tokenizers import Tokenizer, decoders

from weir_worker.text.byte_level import ByteLevelDetokenizerFactory
from weir_worker.text.detokenizer import DetokenizerFactory
from weir_worker.text.windowed import WindowedDetokenizerFactory


def detokenizer_factory(tokenizer: Tokenizer) -> DetokenizerFactory:
    """Return the byte table where the decoder is plain byte-level BPE, else windows."""
    if isinstance(tokenizer.decoder, decoders.ByteLevel):
        return ByteLevelDetokenizerFactory(tokenizer)
    return WindowedDetokenizerFactory(tokenizer)
