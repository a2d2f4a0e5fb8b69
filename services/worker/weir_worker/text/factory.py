"""Chooses the detokeniser for a tokenizer."""

import json

from tokenizers import Tokenizer

from weir_worker.text.byte_level import ByteLevelDetokenizerFactory
from weir_worker.text.detokenizer import DetokenizerFactory
from weir_worker.text.windowed import WindowedDetokenizerFactory


def detokenizer_factory(tokenizer: Tokenizer) -> DetokenizerFactory:
    """Return the byte table where the decoder is plain byte-level BPE, else windows."""
    decoder = json.loads(tokenizer.to_str()).get("decoder") or {}
    if decoder.get("type") == "ByteLevel":
        return ByteLevelDetokenizerFactory(tokenizer)
    return WindowedDetokenizerFactory(tokenizer)
