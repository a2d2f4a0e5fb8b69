"""JSON of answers: whole, and in pieces from templates built once a request."""

from collections.abc import Sequence
from typing import Any

import orjson

from weir.common.v1.usage_pb2 import Usage
from weir_core.errors import WeirError
from weir_core.errors.openai import to_body
from weir_gateway.flow.delivery import Piece
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.openai.choice import Choice
from weir_gateway.openai.service_tier import used_tier
from weir_gateway.text.token_trail import ToldToken, prompt_tokens

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"
_MARK = "\u0000"


def usage_json(usage: Usage) -> dict[str, Any]:
    """OpenAI's `usage`."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_prompt_tokens},
    }


class AnswerFormat:
    """How the answers of one request look.

    Args:
        live: the request.
        chat: chat completion, else text completion.
        include_usage: streams end with a usage chunk.
        service_tier: as asked for; the answer tells which was used. Empty: nothing is told.
    """

    def __init__(
        self, live: LiveRequest, *, chat: bool, include_usage: bool, service_tier: str = ""
    ) -> None:
        prepared = live.prepared
        self._chat = chat
        self._include_usage = include_usage
        self._prepared = prepared
        self._live = live
        kind = "chatcmpl" if chat else "cmpl"
        self._head = {
            "id": f"{kind}-{live.id.removeprefix('req_')}",
            "created": live.facts.accepted_us // 1_000_000,
            "model": prepared.subject.model,
        }
        if prepared.degradations:
            self._head["degradations"] = prepared.degradations
        if service_tier:
            self._head["service_tier"] = used_tier(service_tier, prepared)
        self._choices = [Choice(prepared, index, chat=chat) for index in range(prepared.choices)]
        # Of text without log-probabilities only the text itself changes from piece to piece.
        self._templates: list[tuple[bytes, bytes]] = []
        first = self._choices[0]
        self._has_templates = not (live.delivery.whole or first.tells or first.calls_tools)
        self._echoes = prepared.sampling.HasField("prompt_logprobs")

    def opening(self) -> bytes:
        """The first events of a stream."""
        if self._chat:
            return b"".join(self._chunk(choice.opening()) for choice in self._choices)
        echo = self._prepared.echo
        if not echo or self._echoes:
            return b""
        return b"".join(self._chunk(choice.piece(echo)) for choice in self._choices)

    def pieces(self, pieces: Sequence[Piece]) -> bytes:
        """Events with new text."""
        events = []
        if pieces and self._has_templates and not self._templates:
            # Only now is it known which version serves.
            self._templates = [self._template(choice) for choice in self._choices]
        for piece in pieces:
            if self._templates:
                if piece.text:
                    before, after = self._templates[piece.choice]
                    events.append(before + orjson.dumps(piece.text) + after)
                continue
            events += self._told(piece)
        return b"".join(events)

    def closing(self, ending: Ending) -> bytes:
        """The last events of a stream: the finish if it was answered, or in part; the error."""
        events = b""
        if ending.error is None or ending.cut_by_quota:
            reasons = ending.finish_reasons(len(self._choices))
            for choice, reason in zip(self._choices, reasons, strict=True):
                events += b"".join(self._chunk(chunk) for chunk in choice.closing(reason))
            if self._include_usage:
                chunk = self._object("chunk") | {"choices": [], "usage": usage_json(ending.usage)}
                events += b"data: " + orjson.dumps(chunk) + b"\n\n"
        if ending.error is not None:
            events += _error_event(ending.error)
        return events + DONE

    def whole(self, pieces: Sequence[Piece], ending: Ending) -> bytes:
        """The body of an answer that is not streamed; with `error` if a limit cut it short."""
        reasons = ending.finish_reasons(len(self._choices))
        texts: list[list[str]] = [[self._prepared.echo] for _ in self._choices]
        tokens: list[list[ToldToken]] = [self._prompt(pieces) for _ in self._choices]
        for piece in pieces:
            texts[piece.choice].append(piece.text)
            tokens[piece.choice] += self._choices[piece.choice].tokens_of(piece)
        body = self._object("") | {
            "choices": [
                choice.whole("".join(text), told, reason)
                for choice, text, told, reason in zip(
                    self._choices, texts, tokens, reasons, strict=True
                )
            ],
            "usage": usage_json(ending.usage),
            # What was assumed when the client named no bound.
            "max_new_tokens": self._prepared.max_new_tokens,
        }
        if ending.error is not None:
            body |= to_body(ending.error)
        return orjson.dumps(body)

    def _told(self, piece: Piece) -> list[bytes]:
        """Events of a piece with log-probabilities, the prompt's before all others."""
        events = []
        if self._echoes and piece.prompt_logprobs:
            told, echo = self._prompt([piece]), self._prepared.echo
            events = [self._chunk(choice.piece(echo, told)) for choice in self._choices]
        choice = self._choices[piece.choice]
        if choice.calls_tools:
            return [self._chunk(delta) for delta in choice.deltas(piece.text)]
        tokens = choice.tokens_of(piece)
        if piece.text or tokens:
            events.append(self._chunk(choice.piece(piece.text, tokens)))
        return events

    def _prompt(self, pieces: Sequence[Piece]) -> list[ToldToken]:
        if not self._echoes:
            return []
        prepared = self._prepared
        told = next((piece.prompt_logprobs for piece in pieces if piece.prompt_logprobs), ())
        return prompt_tokens(prepared.token_bytes, prepared.prompt.token_ids, told, prepared.echo)

    def _template(self, choice: Choice) -> tuple[bytes, bytes]:
        before, after = self._chunk(choice.piece(_MARK)).split(orjson.dumps(_MARK))
        return before, after

    def _chunk(self, choice: dict[str, Any]) -> bytes:
        chunk = self._object("chunk") | {"choices": [choice]}
        if self._include_usage:
            chunk["usage"] = None
        return b"data: " + orjson.dumps(chunk) + b"\n\n"

    def _object(self, suffix: str) -> dict[str, Any]:
        name = "text_completion"
        if self._chat:
            name = f"chat.completion.{suffix}" if suffix else "chat.completion"
        version = self._live.model_version or None
        return {**self._head, "system_fingerprint": version, "object": name}


def _error_event(error: WeirError) -> bytes:
    return b"data: " + orjson.dumps(to_body(error)) + b"\n\n"
