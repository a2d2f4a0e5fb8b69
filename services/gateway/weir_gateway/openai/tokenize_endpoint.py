"""`POST /v1/tokenize` and `/v1/detokenize`, in vLLM's shapes."""

from typing import Any

from weir_core.clock import Clock
from weir_core.errors import InvalidField
from weir_core.ids import new_request_id
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.reception import Reception
from weir_gateway.intake.checks import check_token_count
from weir_gateway.intake.generation_request import FieldNames, GenerationRequest
from weir_gateway.intake.preparer import Preparer
from weir_gateway.intake.shape import Shape
from weir_gateway.openai.endpoint import Endpoint
from weir_gateway.openai.exchange import Exchange
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.json_body import parse_object
from weir_gateway.openai.requests import chat_input, model_name
from weir_gateway.openai.sampling_fields import is_id
from weir_gateway.openai.tool_fields import to_tools

_ALWAYS = ("add_special_tokens", "add_generation_prompt")
_NAMES = FieldNames(prompt="tokens")


class TokenizeEndpoint(Endpoint):
    """Tokens of a text or a chat, as a generation would compute them; or the text of tokens.

    Args:
        reception, preparer: see there.
        reverse: the text of tokens.
        clock, max_body, stall_s: see `Endpoint`.
    """

    def __init__(
        self,
        *,
        reception: Reception,
        preparer: Preparer,
        reverse: bool,
        clock: Clock,
        max_body: int,
        stall_s: float,
    ) -> None:
        super().__init__(clock=clock, max_body=max_body, stall_s=stall_s)
        self._reception = reception
        self._preparer = preparer
        self._answer = self._detokenize if reverse else self._tokenize

    async def _serve(self, exchange: Exchange) -> None:
        caller = self._reception.let_in(exchange.header("authorization"))
        body = Fields(parse_object(await exchange.body()))
        request_id = (b"x-request-id", new_request_id(self._clock).encode())
        await exchange.reply_json(await self._answer(caller, body), [request_id])

    async def _tokenize(self, caller: Caller, body: Fields) -> dict[str, Any]:
        request, wants_texts = _to_tokenize(body)
        prompt, context = await self._preparer.tokenize(caller, request)
        ids = prompt.token_ids
        texts = self._preparer.token_texts(caller, request, ids) if wants_texts else None
        return {"count": len(ids), "max_model_len": context, "tokens": ids, "token_strs": texts}

    async def _detokenize(self, caller: Caller, body: Fields) -> dict[str, Any]:
        request = _to_detokenize(body)
        return {"prompt": await self._preparer.detokenize(caller, request)}


def _to_tokenize(body: Fields) -> tuple[GenerationRequest, bool]:
    model = model_name(body)
    for name in _ALWAYS:
        if body.raw(name) not in (None, True):
            raise body.unsupported(name, "tokens are counted as a generation counts them")
    wants_texts = body.boolean("return_token_strs")
    prompt, prefix = body.raw("prompt"), body.text("prefix")
    if prompt is None:
        request = GenerationRequest(model=model, prefix=prefix, **chat_input(body, to_tools(body)))
    elif isinstance(prompt, str):
        request = GenerationRequest(model=model, prompt=prompt, prefix=prefix)
    else:
        raise body.invalid("prompt", Shape(prompt), "a string")
    body.refuse_unknown()
    return request, wants_texts


def _to_detokenize(body: Fields) -> GenerationRequest:
    model, tokens = model_name(body), body.raw("tokens")
    body.refuse_unknown()
    if not isinstance(tokens, list) or not tokens:
        raise InvalidField("tokens", Shape(tokens), "an array of at least one token id")
    check_token_count("tokens", tokens)
    if not all(map(is_id, tokens)):
        raise InvalidField("tokens", Shape(tokens), "an array of token ids")
    return GenerationRequest(model=model, token_ids=tuple(tokens), names=_NAMES)
