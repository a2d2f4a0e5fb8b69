"""Detokenising for any tokenizer, by decoding a small window twice (as vLLM and TGI do)."""

from collections.abc import Sequence

from tokenizers import Tokenizer

_CONTEXT = 6
_UNFINISHED = "\ufffd"
# Tokens of a character that is not finished by then are broken bytes, and are let out.
_LONGEST_HOLD = 16


class WindowedDetokenizerFactory:
    """Detokenisers over one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def open(self, prompt_token_ids: Sequence[int]) -> "WindowedDetokenizer":
        """Start after a prompt, of which the last few tokens stay as context."""
        context = list(prompt_token_ids[-_CONTEXT:])
        read = len(context)
        # Tokens of a character that the prompt leaves open belong to the output's first one.
        while read and self._tokenizer.decode(context[:read]).endswith(_UNFINISHED):
            read -= 1
        return WindowedDetokenizer(self._tokenizer, context, read)


class WindowedDetokenizer:
    """Tokens [0, read) are emitted and stay as context for those that follow.

    The text of new tokens is the difference between decoding all and decoding the context:
    decoders treat the first token of a text in their own way (leading spaces), so new tokens
    are never decoded alone.
    """

    __slots__ = ("_ids", "_read", "_tokenizer")

    def __init__(self, tokenizer: Tokenizer, context: list[int], read: int) -> None:
        self._tokenizer = tokenizer
        self._ids = context
        self._read = read

    def push(self, token_id: int) -> str:
        """Return the new text, or nothing while it ends in the middle of a character."""
        if not 0 <= token_id < 2**32:
            return ""
        self._ids.append(token_id)
        before, after = self._texts()
        held = len(self._ids) - self._read
        if len(after) <= len(before) or (after.endswith(_UNFINISHED) and held < _LONGEST_HOLD):
            return ""
        return self._emit(before, after)

    def flush(self) -> str:
        """Return the text of the tokens held back."""
        return self._emit(*self._texts())

    def _emit(self, before: str, after: str) -> str:
        self._ids = self._ids[self._read :]
        self._read = len(self._ids)
        if after.startswith(before):
            return after[len(before) :]
        # Byte-fallback decoders turn a whole run of bytes into U+FFFD for one broken byte,
        # the part that was emitted included; only the rest of it is new.
        return after[len(before) :] if not after.endswith(_UNFINISHED) else _UNFINISHED

    def _texts(self) -> tuple[str, str]:
        decode = self._tokenizer.decode
        return decode(self._ids[: self._read]), decode(self._ids)
