"""What administrators do about webhooks."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio
from standardwebhooks import Webhook

from tests.gateway.harness import Gateway, eventually, running_gateway
from tests.gateway.jobs.asking import submit
from tests.gateway.jobs.receiver import receiving
from weir.gateway.v1 import webhook_service_pb2 as pb
from weir.gateway.v1.webhook_service_pb2_grpc import WebhookServiceStub
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "an-admin-secret-of-more-than-32-characters"
ADMIN = (("authorization", f"Bearer {SECRET}"),)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("webhooks")
    async with running_gateway(
        folder,
        state_url=f"sqlite:///{folder}/state.sqlite",
        admin_secret=SECRET,
        webhooks_over_http=True,
        webhooks_to_private_addresses=True,
    ) as gateway:
        yield gateway


async def call(site: Gateway, method: str, request: Any, metadata: Any = ADMIN) -> Any:
    stub: Any = WebhookServiceStub(site.channel)
    return await getattr(stub, method)(request, metadata=metadata)


async def test_a_registered_url_gets_the_end_of_every_job_of_its_tenant_alone(
    site: Gateway,
) -> None:
    async with receiving() as receiver:
        put = await call(
            site,
            "PutWebhookEndpoint",
            pb.PutWebhookEndpointRequest(tenant_id="acme", url=receiver.url),
        )
        assert put.endpoint.registered
        job = await submit(site)
        await submit(site, secret=site.other_key.secret)
        await eventually(lambda: receiver.received)
        told = await call(site, "GetWebhookSecret", pb.GetWebhookSecretRequest(tenant_id="acme"))
        got = receiver.received[0]
        event = Webhook(told.secret.secret).verify(got.body, got.headers)
        assert event["data"]["id"] == job["id"]
        rotated = await call(
            site, "RotateWebhookSecret", pb.RotateWebhookSecretRequest(tenant_id="acme")
        )
        assert rotated.secret.previous == told.secret.secret
        assert rotated.secret.previous_expire_time.seconds > rotated.secret.change_time.seconds
        await call(
            site,
            "DeleteWebhookEndpoint",
            pb.DeleteWebhookEndpointRequest(tenant_id="acme", url=receiver.url),
        )
        listed = await call(
            site, "ListWebhookEndpoints", pb.ListWebhookEndpointsRequest(tenant_id="acme")
        )
        assert not listed.endpoints
        assert len(receiver.received) == 1


@pytest.mark.parametrize(
    ("method", "request_", "reason"),
    [
        ("GetWebhookSecret", pb.GetWebhookSecretRequest(tenant_id="nobody"), Reason.NOT_FOUND),
        (
            "PutWebhookEndpoint",
            pb.PutWebhookEndpointRequest(tenant_id="acme", url="gopher://x"),
            Reason.INVALID_FIELD,
        ),
        (
            "DeleteWebhookEndpoint",
            pb.DeleteWebhookEndpointRequest(tenant_id="acme", url="https://no.example/"),
            Reason.NOT_FOUND,
        ),
    ],
)
async def test_refusals(site: Gateway, method: str, request_: Any, reason: Reason) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(site, method, request_)
    assert from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL).reason is reason


async def test_the_key_of_a_tenant_does_not_do(site: Gateway) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(
            site, "GetWebhookSecret", pb.GetWebhookSecretRequest(tenant_id="acme"), site.metadata
        )
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
