"""What happened to each request, and why: asked of everybody who knows a part of it."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from weir.common.v1.lifecycle_pb2 import TerminalRecord
from weir.common.v1.usage_pb2 import UsageQuality
from weir.gateway.v1.insight_service_pb2 import (
    Explanation,
    GetConfigurationResponse,
    GetKvMapResponse,
    ListRequestsRequest,
    ListRequestsResponse,
    RequestState,
    RequestSummary,
)
from weir.scheduler.v1.scheduler_service_pb2 import WorkerView
from weir.worker.v1.worker_service_pb2 import KvMap
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.ids import check_id
from weir_gateway.insight.configuration import Configuration
from weir_gateway.insight.explanation import explanation_of
from weir_gateway.insight.from_ledger import charge_of, explanation_from
from weir_gateway.insight.own_blocks import added_blocks, own_blocks
from weir_gateway.insight.peers import Peers
from weir_gateway.insight.request_book import RequestBook
from weir_gateway.insight.sentences import sentences_of
from weir_gateway.insight.sources import Sources, no_worker
from weir_gateway.insight.summary import merged, newest

_MOST_PARTS = 64
_T = TypeVar("_T")


class InsightDesk:
    """Behind `InsightService` and the console.

    `tenant_id` is whom the answer is for: a tenant is told of its own requests alone; empty is
    the administrator, who is told of everything.

    Args:
        book: requests of this gateway.
        sources: the other services.
        peers: the other gateways.
        configuration: what services run with.
        gateway_id: of this process.
        keep_s: how long gateways remember a request, for people.
    """

    def __init__(
        self,
        book: RequestBook,
        sources: Sources,
        peers: Peers,
        configuration: Configuration,
        *,
        gateway_id: str,
        keep_s: float,
    ) -> None:
        self._book = book
        self._sources = sources
        self._peers = peers
        self._configuration = configuration
        self._gateway_id = gateway_id
        self._keep_s = keep_s

    async def explain_request(self, request_id: str, *, tenant_id: str = "") -> Explanation:
        """The account of a request.

        Raises:
            WeirError: INVALID_FIELD; NOT_FOUND, alike for ids of other tenants; or what kept
                the ledger from being read where nobody else knows of it.
        """
        check_id("request_id", request_id)
        told, unasked = self.own_account(request_id), 0
        if told is None or not _may_see(told, tenant_id):
            told, unasked = await self._peers.find(request_id)
        if told is None or not _may_see(told, tenant_id):
            told = await self._from_ledger(request_id, tenant_id, unasked)
        else:
            await self._complete(told)
        told.sentences.extend(sentences_of(told))
        return told

    def own_account(self, request_id: str) -> Explanation | None:
        """What this gateway itself remembers of a request of anybody."""
        trail = self._book.find(request_id)
        return None if trail is None else explanation_of(trail, self._gateway_id)

    async def list_requests(
        self, request: ListRequestsRequest, *, tenant_id: str = ""
    ) -> ListRequestsResponse:
        """A page of requests of all gateways, newest first.

        Raises:
            WeirError: INVALID_FIELD.
        """
        query = ListRequestsRequest()
        query.CopyFrom(request)
        if tenant_id and query.tenant_id not in ("", tenant_id):
            return ListRequestsResponse()
        query.tenant_id = tenant_id or query.tenant_id
        own = self.own_requests(query)
        others, missing = await self._peers.list_requests(query)
        page, token = merged([own, *others], query)
        return ListRequestsResponse(requests=page, next_page_token=token, missing=missing)

    def own_requests(self, query: ListRequestsRequest) -> list[RequestSummary]:
        """What this gateway itself remembers, one more than a page. Raises WeirError."""
        return newest(self._book, query, query.tenant_id, self._gateway_id)

    async def get_kv_map(
        self, worker_id: str, *, first_block: int = 0, tenant_id: str = ""
    ) -> GetKvMapResponse:
        """The KV blocks of a worker.

        Raises:
            WeirError: NOT_FOUND, NO_WORKER, SCHEDULER_UNAVAILABLE, or INVALID_FIELD.
        """
        check_id("worker_id", worker_id)
        worker = await self._sources.worker(worker_id)
        if not tenant_id:
            blocks = await self._sources.kv_map(worker, first_block)
        elif worker.registration.dedicated_tenant_id not in ("", tenant_id):
            # Before it is asked: whether it answers would tell that it is there.
            raise no_worker(worker_id)
        elif first_block:
            # What is left behind a place would tell where the tenant's blocks are.
            raise InvalidField("first_block", first_block, "0: places are told to administrators")
        else:
            blocks = await self._own_blocks(worker, tenant_id)
        return GetKvMapResponse(worker_id=worker_id, model=worker.registration.model, map=blocks)

    async def _own_blocks(self, worker: WorkerView, tenant_id: str) -> KvMap:
        """A tenant's blocks of all parts of the map."""
        parts = [await self._sources.kv_map(worker, 0)]
        own = [own_blocks(parts[0], tenant_id)]
        while (first := parts.pop().next_block) and len(own) < _MOST_PARTS:
            parts.append(await self._sources.kv_map(worker, first))
            own.append(own_blocks(parts[0], tenant_id))
        return added_blocks(own)

    async def get_configuration(self) -> GetConfigurationResponse:
        """The settings in force of every service; for administrators alone."""
        return await self._configuration.collect()

    async def _from_ledger(self, request_id: str, tenant_id: str, unasked: int) -> Explanation:
        row = await self._sources.charge(request_id, tenant_id)
        silent = f"; {unasked} of the gateways did not answer, and may remember it"
        if row is None:
            raise WeirError(
                Reason.NOT_FOUND,
                f"no gateway remembers such a request ({self._keep_s / 60:.0f} min, and less if it "
                "was restarted), and the ledger has no charge of it; one whose gateway died is "
                f"charged when its lease ends{silent if unasked else ''}",
                field="request_id",
            )
        told = explanation_from(row)
        told.missing.append(
            f"no gateway remembers it any more (explain_keep_s, {self._keep_s:.0f} s, or its "
            "gateway was restarted): what follows is of the ledger alone"
            f"{silent if unasked else ''}"
        )
        return told

    async def _complete(self, told: Explanation) -> None:
        """Adds what others know; what cannot be asked is named."""
        if told.state == RequestState.REQUEST_STATE_REFUSED:
            return
        tenant_id = told.subject.tenant_id
        joins = [self._add_reservation(told)]
        if told.state == RequestState.REQUEST_STATE_ENDED:
            joins.append(self._add_charge(told, tenant_id))
            if _lost_count(told):
                joins.append(self._add_terminal(told))
        elif told.state == RequestState.REQUEST_STATE_QUEUED:
            joins.append(self._add_place(told, tenant_id))
        await asyncio.gather(*joins)

    async def _add_reservation(self, told: Explanation) -> None:
        named = told.reservation.reservation_id
        told.ClearField("reservation")
        if not named:
            return
        found = await _or_missing(
            self._sources.reservation(told.subject, named), "its reservation", told
        )
        if found is not None:
            told.reservation.CopyFrom(found)

    async def _add_charge(self, told: Explanation, tenant_id: str) -> None:
        row = await _or_missing(
            self._sources.charge(told.request_id, tenant_id), "its charge", told
        )
        if row is not None:
            told.charge.CopyFrom(charge_of(row))

    async def _add_place(self, told: Explanation, tenant_id: str) -> None:
        place = await _or_missing(
            self._sources.queue_place(told.request_id, tenant_id), "its place in the queue", told
        )
        if place is not None:
            told.queued.CopyFrom(place)

    async def _add_terminal(self, told: Explanation) -> None:
        worker_id = told.lifecycle.worker_id
        record: TerminalRecord | None = await _or_missing(
            self._sources.terminal(worker_id, told.request_id), "the record of its worker", told
        )
        if record is not None and record.tenant_id == told.subject.tenant_id:
            told.terminal.CopyFrom(record)


def _may_see(told: Explanation, tenant_id: str) -> bool:
    return tenant_id in ("", told.subject.tenant_id)


def _lost_count(told: Explanation) -> bool:
    """It ran somewhere, and the gateway did not get the worker's own count."""
    exact = told.lifecycle.usage_quality == UsageQuality.USAGE_QUALITY_EXACT
    return not exact and not told.HasField("terminal") and bool(told.lifecycle.worker_id)


async def _or_missing(asking: Awaitable[_T | None], what: str, told: Explanation) -> _T | None:
    try:
        return await asking
    except WeirError as error:
        told.missing.append(f"{what}: {error.message}")
        return None
