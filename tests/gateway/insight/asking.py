"""How tests ask a gateway for the account of a request."""

from typing import TYPE_CHECKING, Any

import grpc

from tests.gateway.harness import MODEL, Gateway
from weir.gateway.v1.inference_service_pb2 import ChatInput, ChatMessage, GenerateRequest
from weir.gateway.v1.insight_service_pb2 import (
    EventKind,
    ExplainRequestRequest,
    Explanation,
    ListRequestsRequest,
    ListRequestsResponse,
)
from weir.gateway.v1.insight_service_pb2_grpc import InsightServiceStub

if TYPE_CHECKING:
    from weir.gateway.v1.insight_service_pb2_grpc import InsightServiceAsyncStub

ADMIN_SECRET = "an-admin-secret-of-more-than-32-characters"


def stub(gateway: Gateway) -> "InsightServiceAsyncStub":
    return InsightServiceStub(gateway.channel)


def bearer(secret: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {secret}"),)


async def explain(gateway: Gateway, request_id: str, secret: str = ADMIN_SECRET) -> Explanation:
    answer = await stub(gateway).ExplainRequest(
        ExplainRequestRequest(request_id=request_id), metadata=bearer(secret), timeout=20
    )
    return answer.explanation


async def listed(
    gateway: Gateway, secret: str = ADMIN_SECRET, **query: Any
) -> ListRequestsResponse:
    return await stub(gateway).ListRequests(
        ListRequestsRequest(**query), metadata=bearer(secret), timeout=20
    )


def kinds(told: Explanation) -> list[str]:
    """The events of an account, in order."""
    return [EventKind.Name(event.kind).removeprefix("EVENT_KIND_") for event in told.events]


def phases(told: Explanation) -> list[str]:
    return [phase.name for phase in told.phases]


def said(told: Explanation) -> str:
    return "\n".join(told.sentences)


def question(**fields: Any) -> GenerateRequest:
    """A native request."""
    chat = ChatInput(messages=[ChatMessage(role="user", content="hi")])
    return GenerateRequest(model=MODEL, chat=chat, **({"max_new_tokens": 8} | fields))


def request_id_of(error: grpc.aio.AioRpcError) -> str:
    """What a refusal over gRPC tells."""
    trailers = dict(error.trailing_metadata() or ())
    return str(trailers.get("x-request-id", ""))
