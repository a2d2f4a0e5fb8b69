"""What single tokens stand for."""

import json
import re
from typing import Any

from tokenizers import Tokenizer

from weir_core.byte_alphabet import character_of_byte

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_WORD_START = "\u2581"


class TokenBytes:
    """The bytes of each token of one vocabulary, looked up when first asked for.

    A token may be part of a character only, so what it stands for is bytes and not text. The
    bytes of an output's tokens, one after the other, are its text as UTF-8; SentencePiece
    vocabularies write the space before a first word too.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._special = {
            token_id: token.content
            for token_id, token in tokenizer.get_added_tokens_decoder().items()
            if token.special
        }
        self._byte_level = _is_byte_level(tokenizer)
        self._byte_of = {char: byte for byte, char in enumerate(character_of_byte())}
        self._known: dict[int, bytes] = {}

    def is_special(self, token_id: int) -> bool:
        """Whether a token has no text, such as an end of sequence."""
        return token_id in self._special

    def of(self, token_id: int) -> bytes:
        """The bytes of a token; a special one's are its name, one that does not exist has none."""
        found = self._known.get(token_id)
        if found is None:
            found = self._known[token_id] = self._look_up(token_id)
        return found

    def _look_up(self, token_id: int) -> bytes:
        if token_id in self._special:
            return self._special[token_id].encode()
        piece = self._tokenizer.id_to_token(token_id) if 0 <= token_id < 2**32 else None
        if piece is None:
            return b""
        if self._byte_level:
            return self._of_byte_level(piece)
        byte = _BYTE_TOKEN.fullmatch(piece)
        if byte:
            return bytes([int(byte[1], 16)])
        return piece.replace(_WORD_START, " ").encode()

    def _of_byte_level(self, piece: str) -> bytes:
        try:
            return bytes(self._byte_of[char] for char in piece)
        except KeyError:
            # An added token in plain text, such as one that holds a space.
            return piece.encode()


def _is_byte_level(tokenizer: Tokenizer) -> bool:
    if tokenizer.decoder is None:
        return False
    decoder: dict[str, Any] = json.loads(tokenizer.decoder.__getstate__())
    parts = decoder.get("decoders", [decoder])
    return any(part.get("type") == "ByteLevel" for part in parts)
