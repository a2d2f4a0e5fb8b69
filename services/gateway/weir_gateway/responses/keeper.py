"""What is kept of responses, and the conversations that go on from them."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.telemetry.logs import get_logger
from weir_gateway.flow.delivery import Piece
from weir_gateway.flow.ending import Ending
from weir_gateway.responses.answer import ResponseAnswer
from weir_gateway.responses.items import Item
from weir_gateway.responses.request import ResponseRequest
from weir_gateway.responses.store import ResponseStore, StoredResponse
from weir_gateway.state.state import State

_log = get_logger(__name__)

_GOES_ON = ("completed", "incomplete")


class Keeper:
    """Keeps responses for a time, by tenant.

    Args:
        state: the database, or none.
        store: its responses.
        clock: wall time.
        retention_s: how long a response is kept.
    """

    def __init__(
        self, state: State, store: ResponseStore, clock: Clock, *, retention_s: float
    ) -> None:
        self._state = state
        self._store = store
        self._clock = clock
        self._retention_ms = round(retention_s * 1_000)

    def keeps(self, request: ResponseRequest) -> bool:
        """Whether the response will be kept."""
        return self._state.on if request.store is None else request.store

    async def complete(self, tenant_id: str, request: ResponseRequest) -> ResponseRequest:
        """The request after the conversation that it goes on from.

        Raises:
            WeirError: STATE_OFF, it wants to be kept and nothing is; RESPONSE_NOT_FOUND;
                STATE_CONFLICT, the response before has no answer to go on from;
                STORAGE_EXCEEDED, it is to be kept in any case and there is no room.
        """
        if self.keeps(request) and not self._state.on:
            self._state.writing()  # which refuses
        if request.store or request.background:
            # Asked for in so many words: no answer is made that cannot be kept.
            await self._store.check_room(tenant_id)
        if not request.previous_id:
            return request
        before = await self._store.get(tenant_id, request.previous_id, "previous_response_id")
        status = before.response["status"]
        if status not in _GOES_ON:
            raise WeirError(
                Reason.STATE_CONFLICT,
                f"previous_response_id names a response that is {status}; go on from one that is "
                f"{' or '.join(_GOES_ON)}",
                field="previous_response_id",
            )
        output = [item for item in before.response["output"] if _is_whole(item)]
        return request.after([*before.items, *output], before.chain_id)

    def stored(
        self,
        tenant_id: str,
        request: ResponseRequest,
        response: Mapping[str, Any],
        *,
        ends_ms: int = 0,
    ) -> StoredResponse:
        """A response in the form in which it is kept, from its end on.

        Args:
            tenant_id, request, response: whose, of what, and as it is now.
            ends_ms: when it has ended at the latest; 0: it has.
        """
        now_ms = self._clock.now_ms()
        return StoredResponse(
            tenant_id=tenant_id,
            id=request.id,
            created_ms=now_ms,
            expires_ms=max(now_ms, ends_ms) + self._retention_ms,
            chain_id=request.chain_id,
            background=request.background,
            response=response,
            items=request.items,
        )

    async def keep(self, answer: ResponseAnswer, pieces: Sequence[Piece], ending: Ending) -> None:
        """Keeps an answer, if it is to be; one that cannot be says so."""
        response = answer.conclude(pieces, ending)
        if not self.keeps(answer.request):
            return
        try:
            await self._store.add(self.stored(answer.tenant_id, answer.request, response))
        except WeirError as error:
            # It was made and charged: the client gets it all the same.
            _log.warning("response_not_kept", request_id=answer.request_id, reason=error.reason)
            answer.not_kept(error)


def _is_whole(item: Item) -> bool:
    """Whether an item can be told to a model: calls that were cut short cannot."""
    if item["type"] != "function_call":
        return True
    try:
        return isinstance(orjson.loads(item["arguments"]), dict)
    except ValueError:
        return False
