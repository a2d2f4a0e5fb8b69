"""The request inspector, and the KV maps: what the insight desk tells."""

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.routing import Route

from weir.common.v1.lifecycle_pb2 import Outcome
from weir.gateway.v1.insight_service_pb2 import (
    ListRequestsRequest,
    ListRequestsResponse,
    RequestState,
)
from weir.worker.v1.worker_service_pb2 import KvMap
from weir_core.errors import InvalidField
from weir_gateway.console.forms.kv_json import kv_json
from weir_gateway.console.forms.request_json import explanation_json, summary_json
from weir_gateway.console.gate import Gate
from weir_gateway.console.sources import Sources, only_at_edges
from weir_gateway.console.visit import Visit
from weir_gateway.insight.desk import InsightDesk
from weir_gateway.insight.summary import merged
from weir_gateway.openai.query import PAGE, Query

_QUEUED, _RUNNING = RequestState.REQUEST_STATE_QUEUED, RequestState.REQUEST_STATE_RUNNING
_STATES = {
    "queued": [_QUEUED],
    "running": [_RUNNING],
    "live": [_QUEUED, _RUNNING],
    "ended": [RequestState.REQUEST_STATE_ENDED],
    "refused": [RequestState.REQUEST_STATE_REFUSED],
    "": [RequestState.REQUEST_STATE_UNSPECIFIED],
}
_OUTCOMES = {
    name.removeprefix("OUTCOME_").lower(): value for name, value in Outcome.items() if value
} | {"": Outcome.OUTCOME_UNSPECIFIED}
_MOST_PARTS = 8


class RequestPages:
    """The handlers.

    Args:
        sources: see there.
        desk: knows requests; None: this process sees none.
    """

    def __init__(self, sources: Sources, desk: InsightDesk | None) -> None:
        self._sources = sources
        self._known = desk

    def routes(self, gate: Gate) -> list[Route]:
        """Under `/console/api`."""
        return [
            gate.get("/requests", self._list),
            gate.get("/requests/{request:path}", self._one),
            gate.get("/workers/{worker:path}/kv", self._kv, admin=True),
        ]

    @property
    def _desk(self) -> InsightDesk:
        if self._known is None:
            raise only_at_edges()
        return self._known

    async def _list(self, visit: Visit) -> Any:
        query = visit.query("tenant", "model", "state", "outcome", "since", *PAGE)
        tenant_id, page = visit.tenant(query), visit.page(query)
        wanted = ListRequestsRequest(
            tenant_id=tenant_id,
            model=query.word("model"),
            outcome=_outcome(query),
            page_size=page.size,
            page_token=page.token,
        )
        if query.word("since"):
            _read_time(query, wanted)
        states = _STATES[query.choice("state", tuple(_STATES), default="")]
        answer = await self._pages(wanted, states, visit.who.tenant_id)
        return {
            "requests": [summary_json(one) for one in answer.requests],
            "next_page_token": answer.next_page_token,
            "missing": list(answer.missing) if visit.who.is_admin else [],
        }

    async def _pages(
        self,
        wanted: ListRequestsRequest,
        states: Sequence["RequestState.ValueType"],
        tenant_id: str,
    ) -> ListRequestsResponse:
        """One page of requests in any of some states."""
        queries = []
        for state in states:
            query = ListRequestsRequest()
            query.CopyFrom(wanted)
            query.state = state
            queries.append(query)
        answers = await asyncio.gather(
            *(self._desk.list_requests(query, tenant_id=tenant_id) for query in queries)
        )
        if len(answers) == 1:
            return answers[0]
        page, token = merged([list(one.requests) for one in answers], wanted)
        # One list may have filled the page alone, and go on.
        token = token or next((one.next_page_token for one in answers if one.next_page_token), "")
        return ListRequestsResponse(
            requests=page, next_page_token=token, missing=answers[0].missing
        )

    async def _one(self, visit: Visit) -> Any:
        visit.query()
        told = await self._desk.explain_request(
            visit.part("request"), tenant_id=visit.who.tenant_id
        )
        return explanation_json(told)

    async def _kv(self, visit: Visit) -> Any:
        visit.query()
        return await self._sources.cards.of(self._map(visit.part("worker")))

    async def _map(self, worker_id: str) -> dict[str, Any]:
        maps: list[KvMap] = []
        while len(maps) < _MOST_PARTS:
            first = maps[-1].next_block if maps else 0
            maps.append((await self._desk.get_kv_map(worker_id, first_block=first)).map)
            if not maps[-1].next_block:
                break
        # Many thousand runs, which the loop shall not wait for.
        return await asyncio.to_thread(kv_json, worker_id, maps)


def _outcome(query: Query) -> "Outcome.ValueType":
    return _OUTCOMES[query.choice("outcome", tuple(_OUTCOMES), default="")]


def _read_time(query: Query, wanted: ListRequestsRequest) -> None:
    text = query.word("since")
    try:
        wanted.from_time.FromJsonString(text)
    except ValueError:
        raise InvalidField("since", text, "a time such as 2026-11-30T00:00:00Z") from None
