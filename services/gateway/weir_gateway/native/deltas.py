"""Pieces of an answer as messages of `gateway.v1`."""

from collections.abc import Iterator, Sequence

from weir.gateway.v1.inference_service_pb2 import Delta, TokenAlternative, TokenInfo
from weir_core.token_bytes import TokenBytes
from weir_gateway.flow.delivery import Piece
from weir_gateway.intake.prepared_request import PreparedRequest
from weir_gateway.text.token_trail import TokenTrail, ToldToken, prompt_tokens

_DELTA_CHARACTERS = 100_000


class Deltas:
    """Makes the deltas of one request.

    Args:
        prepared: the request.
        whole: one delta for each answer, however long.
    """

    def __init__(self, prepared: PreparedRequest, *, whole: bool) -> None:
        self._prepared = prepared
        self._whole = whole
        self._trails: list[TokenTrail] = []
        sampling = prepared.sampling
        if sampling.HasField("logprobs"):
            self._trails = [
                TokenTrail(prepared.token_bytes, sampling.stop_token_ids, holds=bool(sampling.stop))
                for _ in range(prepared.choices)
            ]

    def of(self, pieces: Sequence[Piece], *, last: bool) -> Iterator[Delta]:
        """Pieces that waited together as few deltas, none larger than clients take by default.

        With `last` what was still held back of the log-probabilities comes with them.
        """
        for choice in range(self._prepared.choices):
            mine = pieces
            if self._prepared.choices > 1:
                mine = [piece for piece in pieces if piece.choice == choice]
            if mine or (last and self._trails):
                yield from self._deltas(choice, mine, last=last)

    def _deltas(self, choice: int, pieces: Sequence[Piece], *, last: bool) -> Iterator[Delta]:
        start = characters = 0
        for at, piece in enumerate(pieces):
            characters += len(piece.text)
            if characters > _DELTA_CHARACTERS and at > start and not self._whole:
                yield self._delta(choice, pieces[start:at], last=False)
                start, characters = at, len(piece.text)
        delta = self._delta(choice, pieces[start:], last=last)
        if pieces or delta.logprobs:
            yield delta

    def _delta(self, choice: int, pieces: Sequence[Piece], *, last: bool) -> Delta:
        if len(pieces) == 1:
            delta = Delta(text=pieces[0].text, token_ids=pieces[0].token_ids, choice=choice)
        else:
            delta = Delta(
                text="".join(piece.text for piece in pieces),
                token_ids=[token for piece in pieces for token in piece.token_ids],
                choice=choice,
            )
        if self._prepared.tells_logprobs:
            self._tell(delta, choice, pieces, last=last)
        return delta

    def _tell(self, delta: Delta, choice: int, pieces: Sequence[Piece], *, last: bool) -> None:
        token_bytes = self._prepared.token_bytes
        for piece in pieces:
            if piece.prompt_logprobs:
                ids, told = self._prepared.prompt.token_ids, piece.prompt_logprobs
                prompt = prompt_tokens(token_bytes, ids, told, "")[1:]
                delta.prompt_logprobs.extend(_info(token, token_bytes) for token in prompt)
            if self._trails:
                tokens = self._trails[choice].add(piece.token_ids, piece.logprobs, piece.text)
                delta.logprobs.extend(_info(token, token_bytes) for token in tokens)
        if last and self._trails:
            rest = self._trails[choice].finish()
            delta.logprobs.extend(_info(token, token_bytes) for token in rest)


def _info(token: ToldToken, token_bytes: TokenBytes) -> TokenInfo:
    told = token.logprobs
    info = TokenInfo(token_id=token.token_id, token=token.data)
    if told is not None:
        info.logprob = told.logprob
        info.top.extend(
            TokenAlternative(token_id=rival, token=token_bytes.of(rival), logprob=logprob)
            for rival, logprob in zip(told.top_ids, told.top_logprobs, strict=False)
        )
    return info
