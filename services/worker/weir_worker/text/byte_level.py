"""Detokenising for byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM2), without the tokenizer.

There, each token is a fixed string of bytes and text is their concatenation as UTF-8, so a
table and an incremental decoder do at a fifth of the cost what decoding windows would.
"""

import codecs
from collections.abc import Sequence

from tokenizers import Tokenizer

from weir_core.token_bytes import TokenBytes

# A character has at most 4 bytes, so at most 3 tokens before the output can be part of one.
_LOOK_BACK = 4


class ByteLevelDetokenizerFactory:
    """The bytes of every token, looked up in the tokenizer once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokens = TokenBytes(tokenizer)
        self._bytes: dict[int, bytes] = {}

    def open(self, prompt_token_ids: Sequence[int]) -> "ByteLevelDetokenizer":
        """Start after a prompt; a character that it leaves open is completed."""
        detokenizer = ByteLevelDetokenizer(self)
        for token_id in prompt_token_ids[-_LOOK_BACK:]:
            detokenizer.push(token_id)
        return detokenizer

    def bytes_of(self, token_id: int) -> bytes:
        """Return the bytes of a token; none for a special one or one that does not exist."""
        found = self._bytes.get(token_id)
        if found is None:
            special = self._tokens.is_special(token_id)
            found = self._bytes[token_id] = b"" if special else self._tokens.of(token_id)
        return found


class ByteLevelDetokenizer:
    """One sequence's unfinished bytes."""

    __slots__ = ("_factory", "_pending")

    def __init__(self, factory: ByteLevelDetokenizerFactory) -> None:
        self._factory = factory
        self._pending = b""

    def push(self, token_id: int) -> str:
        """Return the characters that this token completes."""
        data = self._pending + self._factory.bytes_of(token_id)
        text, consumed = codecs.utf_8_decode(data, "replace", False)
        self._pending = data[consumed:]
        return text

    def flush(self) -> str:
        """Return U+FFFD for an unfinished character, else nothing."""
        text, _ = codecs.utf_8_decode(self._pending, "replace", True)
        self._pending = b""
        return text
