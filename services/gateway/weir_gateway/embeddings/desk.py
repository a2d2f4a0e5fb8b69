"""Makes embeddings: requests that take the path of every other, one after the other."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from weir.common.v1.usage_pb2 import Usage
from weir_core.errors import Reason, WeirError
from weir_core.errors.refusal import over_context
from weir_gateway.caller.caller import Caller
from weir_gateway.caller.request_guard import GuardTicket
from weir_gateway.embeddings.order import EmbedOrder, groups
from weir_gateway.flow.admission import Admission
from weir_gateway.flow.delivery import Piece
from weir_gateway.flow.ending import cancelled
from weir_gateway.flow.reception import Reception
from weir_gateway.intake.generation_request import FieldNames, GenerationRequest
from weir_gateway.intake.model_list import ModelList
from weir_gateway.intake.preparer import Preparer

_TAKE_S = 30.0


@dataclass(slots=True)
class Embedded:
    """Embeddings and what they cost.

    Attributes:
        vectors: one for each input.
        usage: of all.
        last: the last request that made them.
    """

    vectors: list[Sequence[float]] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    last: Admission | None = None


class EmbeddingDesk:
    """Takes calls in.

    Args:
        reception, preparer, models: see there.
    """

    def __init__(self, reception: Reception, preparer: Preparer, models: ModelList) -> None:
        self._reception = reception
        self._preparer = preparer
        self._models = models

    async def embed(
        self,
        caller: Caller,
        order: EmbedOrder,
        *,
        ticket: GuardTicket | None = None,
        deadline_s: float | None = None,
    ) -> Embedded:
        """Makes the embeddings of a call. Cancelling it stops what runs.

        Args:
            caller: who asks.
            order: what for.
            ticket: of `Reception.take_ticket`; None to count the call here.
            deadline_s: the client's, of each request; None for none.

        Raises:
            WeirError: why one of its requests was refused or failed; those before were charged.
        """
        ticket = ticket or self._reception.take_ticket(caller)
        try:
            requests = await self._requests(caller, order)
        except BaseException:
            ticket.give_back()
            raise
        made = Embedded()
        for at, request in enumerate(requests):
            admission = await self._reception.admit(
                caller,
                lambda request=request: request,  # type: ignore[misc]
                size=0,
                ticket=None if at else ticket,
                deadline_s=deadline_s,
            )
            made.vectors += await _vectors(admission, request, made.usage)
            made.last = admission
        return made

    async def _requests(self, caller: Caller, order: EmbedOrder) -> list[GenerationRequest]:
        """What the call is made of; each input fits."""
        context = self._models.one(caller, order.model).max_context_tokens
        tokens = [
            await self._tokens(caller, order, given, name, context)
            for given, name in zip(order.inputs, order.names, strict=True)
        ]
        parts = groups([len(ids) for ids in tokens], context - 1)
        return [
            GenerationRequest(
                model=order.model,
                model_version=order.model_version,
                token_ids=tuple(token for at in part for token in tokens[at]),
                embed_lengths=tuple(len(tokens[at]) for at in part),
                max_new_tokens=1,
                latency_sla=order.latency_sla,
                priority=order.priority,
                request_class=order.request_class,
                names=FieldNames(prompt=order.names[part[0]]),
            )
            for part in parts
        ]

    async def _tokens(
        self,
        caller: Caller,
        order: EmbedOrder,
        given: str | tuple[int, ...],
        name: str,
        context: int,
    ) -> list[int]:
        text, ids = (given, None) if isinstance(given, str) else (None, given)
        request = GenerationRequest(
            model=order.model,
            model_version=order.model_version,
            prompt=text,
            token_ids=ids,
            names=FieldNames(prompt=name),
        )
        prompt, _ = await self._preparer.tokenize(caller, request)
        # Of many inputs none keeps others waiting.
        await asyncio.sleep(0)
        length = len(prompt.token_ids)
        if not 0 < length < context:
            raise over_context(
                f"{name} has {length} tokens; {order.model} takes inputs of 1 to {context - 1}; "
                "cut it into shorter ones",
                model=order.model,
                context=context,
                requested=length,
                field=name,
            )
        return prompt.token_ids


async def _vectors(
    admission: Admission, request: GenerationRequest, usage: Usage
) -> list[Sequence[float]]:
    """The embeddings of one request; adds what it used to `usage`. Raises WeirError."""
    live = admission.live
    pieces: list[Piece] = []
    try:
        while True:
            taken = await live.delivery.take(_TAKE_S)
            pieces += taken.pieces
            if taken.ending is not None:
                break
    finally:
        if not live.ended.done():
            live.stop(cancelled())
    if taken.ending.error is not None:
        raise taken.ending.error
    usage.prompt_tokens += taken.ending.usage.prompt_tokens
    usage.total_tokens += taken.ending.usage.prompt_tokens
    found = {piece.choice: piece.embedding for piece in pieces if piece.embedding}
    if sorted(found) != list(range(len(request.embed_lengths))):
        raise WeirError(Reason.ENGINE_FAILED, "the worker did not make every embedding")
    return [found[at] for at in range(len(found))]
