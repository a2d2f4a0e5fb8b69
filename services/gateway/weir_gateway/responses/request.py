"""A body of `/v1/responses` as a request, and what its response repeats of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weir_gateway.openai.requests import HttpRequest
from weir_gateway.responses.items import Item, to_chat


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseRequest(HttpRequest):
    """See the module.

    Attributes:
        id: of the response, `resp_...`.
        told: fields of the response that repeat the request's.
        instructions: the system message of this response alone.
        items: input, in the form in which it is kept: first that of the conversation before.
        previous_id: the response that it goes on from; empty for none.
        chain_id: the first response of the conversation; its own for one that begins it.
        store: whether it is kept; None: where there is a state database.
        background: it is answered at once and made later.
    """

    id: str
    told: Mapping[str, Any]
    instructions: str
    items: Sequence[Item]
    previous_id: str
    chain_id: str
    store: bool | None
    background: bool

    def after(self, items: Sequence[Item], chain_id: str) -> "ResponseRequest":
        """This request with a conversation before its own input.

        From the second turn on the KV of the conversation is kept as a session's is; a response
        that nothing may ever follow leaves none.
        """
        chat = self.request.chat
        assert chat is not None
        whole = (*items, *self.items)
        request = replace(self.request, chat=to_chat(self.instructions, whole, chat.tools))
        if not (request.session_id or request.conversation_id):
            request = replace(request, conversation_id=chain_id)
        return replace(self, request=request, items=whole, chain_id=chain_id)
