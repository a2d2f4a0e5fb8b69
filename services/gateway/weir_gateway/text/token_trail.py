"""Which tokens stand behind the text of an answer."""

import codecs
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weir.common.v1.sampling_pb2 import TokenLogprobs
from weir_core.token_bytes import TokenBytes


@dataclass(frozen=True, slots=True)
class ToldToken:
    """One token of a text.

    Attributes:
        data: the bytes that it stands for, perhaps of a part of a character.
        offset: characters of the text that were complete before it.
        end: and after it.
        logprobs: what the model gave it; None for the first token of a prompt.
    """

    token_id: int
    data: bytes
    offset: int
    end: int
    logprobs: TokenLogprobs | None


class TokenTrail:
    """The tokens of one answer, told as their text is.

    Tokens come when they are drawn; their text may be held back, since it may become a stop
    string, and then it never comes. So a token is told once its text was, and one that ended
    the answer, having no text, is not.

    Args:
        token_bytes: of the model.
        ending_ids: tokens that end the answer, beside the special ones.
        holds: whether text may be held back.
        start: characters before the answer's own, which offsets count too.
    """

    def __init__(
        self, token_bytes: TokenBytes, ending_ids: Iterable[int], *, holds: bool, start: int = 0
    ) -> None:
        self._token_bytes = token_bytes
        self._ending_ids = frozenset(ending_ids)
        self._holds = holds
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._made = self._shown = start
        self._waiting: deque[ToldToken] = deque()

    def add(
        self, token_ids: Sequence[int], logprobs: Sequence[TokenLogprobs], text: str
    ) -> list[ToldToken]:
        """The tokens whose text is out with `text`, which came with `token_ids`."""
        for token_id, told in zip(token_ids, logprobs, strict=False):
            if not (token_id in self._ending_ids or self._token_bytes.is_special(token_id)):
                self._waiting.append(self._token(token_id, told))
        self._shown += len(text)
        told_now = []
        while self._waiting and not (self._holds and self._waiting[0].end > self._shown):
            told_now.append(self._waiting.popleft())
        return told_now

    def finish(self) -> list[ToldToken]:
        """The tokens of which at least a part is in the text that was told, at its end."""
        rest = [token for token in self._waiting if token.offset < self._shown]
        self._waiting.clear()
        return rest

    def _token(self, token_id: int, told: TokenLogprobs) -> ToldToken:
        data = self._token_bytes.of(token_id)
        offset = self._made
        self._made += len(self._decoder.decode(data))
        return ToldToken(token_id, data, offset, self._made, told)


def prompt_tokens(
    token_bytes: TokenBytes,
    token_ids: Sequence[int],
    logprobs: Sequence[TokenLogprobs],
    text: str,
) -> list[ToldToken]:
    """The tokens of a prompt; `logprobs` has one for each but the first, `text` is its text."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    made = 0
    tokens = []
    for token_id, told in zip(token_ids, (None, *logprobs), strict=False):
        data = token_bytes.of(token_id)
        offset = made
        # One that the tokenizer put before the text is not in it.
        if not token_bytes.is_special(token_id) or data.decode() in text:
            made += len(decoder.decode(data))
        tokens.append(ToldToken(token_id, data, offset, made, told))
    return tokens
