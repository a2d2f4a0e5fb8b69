"""Detokenising for byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM2), without the tokenizer.

There, each token is a fixed string of bytes and text is their concatenation as UTF-8, so a
table and an incremental decoder do at a fifth of the cost what decoding windows would.
"""

import codecs
from collections.abc import Sequence

from tokenizers import Tokenizer

from weir_worker.text.byte_alphabet import character_of_byte

# A character has at most 4 bytes, so at most 3 tokens before the output can be part of one.
_LOOK_BACK = 4


class ByteLevelDetokenizerFactory:
    """The bytes of every token, looked up in the tokenizer once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._byte_of = {char: byte for byte, char in enumerate(character_of_byte())}
        added = tokenizer.get_added_tokens_decoder()
        self._bytes = {token_id: b"" for token_id, token in added.items() if token.special}

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
            found = self._bytes[token_id] = self._look_up(token_id)
        return found

    def _look_up(self, token_id: int) -> bytes:
        piece = self._tokenizer.id_to_token(token_id) if 0 <= token_id < 2**32 else None
        if piece is None:
            return b""
        try:
            return bytes(self._byte_of[char] for char in piece)
        except KeyError:
            # An added token in plain text, such as one that holds a space.
            return piece.encode()


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
