"""The other gateways, asked for what they remember."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

import grpc

from weir.gateway.v1.insight_peer_service_pb2 import FindRequestRequest, ListOwnRequestsRequest
from weir.gateway.v1.insight_peer_service_pb2_grpc import InsightPeerServiceStub
from weir.gateway.v1.insight_service_pb2 import (
    Explanation,
    ListRequestsRequest,
    RequestSummary,
)
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_rpc_error
from weir_gateway.insight.sources import Open

_CALL_S = 1.5
_UNASKED = "did not answer"


class Register(Protocol):
    """Says which gateways there are."""

    @property
    def others(self) -> Mapping[str, str]:
        """Addresses by id, without the own one."""


class Peers:
    """Asks all of them at once.

    Args:
        register: who they are.
        open_channel: to one of them.
    """

    def __init__(self, register: Register, open_channel: Open) -> None:
        self._register = register
        self._open = open_channel

    @property
    def addresses(self) -> list[str]:
        """Of those that live."""
        return sorted(self._register.others.values())

    async def find(self, request_id: str) -> tuple[Explanation | None, int]:
        """What one of them remembers of a request of anybody, and how many did not answer."""
        answers = await asyncio.gather(*(self._find(at, request_id) for at in self.addresses))
        found = next((one for one in answers if isinstance(one, Explanation)), None)
        return found, answers.count(_UNASKED)

    async def list_requests(
        self, query: ListRequestsRequest
    ) -> tuple[list[list[RequestSummary]], list[str]]:
        """Their lists, and which of them could not be asked."""
        answers = await asyncio.gather(*(self._list(at, query) for at in self.addresses))
        lists = [answer for answer in answers if isinstance(answer, list)]
        return lists, [answer for answer in answers if isinstance(answer, str)]

    async def _find(self, address: str, request_id: str) -> Explanation | str | None:
        async with self._open(address, "gateway") as channel:
            stub = InsightPeerServiceStub(channel)
            try:
                answer = await stub.FindRequest(
                    FindRequestRequest(request_id=request_id), timeout=_CALL_S
                )
            except grpc.aio.AioRpcError as error:
                return None if error.code() is grpc.StatusCode.NOT_FOUND else _UNASKED
        return answer.explanation

    async def _list(self, address: str, query: ListRequestsRequest) -> list[RequestSummary] | str:
        async with self._open(address, "gateway") as channel:
            stub = InsightPeerServiceStub(channel)
            try:
                answer = await stub.ListOwnRequests(
                    ListOwnRequestsRequest(query=query), timeout=_CALL_S
                )
            except grpc.aio.AioRpcError as error:
                told = from_rpc_error(error, unavailable_as=Reason.INTERNAL, peer="it")
                if told.reason is Reason.INVALID_FIELD:
                    raise told from None
                return f"a gateway: {told.message}"
        return list(answer.requests)


def not_remembered() -> WeirError:
    """What a gateway tells another that asks for what it does not know."""
    return WeirError(Reason.NOT_FOUND, "this gateway remembers no such request")
