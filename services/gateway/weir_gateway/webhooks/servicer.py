"""`weir.gateway.v1.WebhookService`, for administrators."""

# ruff: noqa: N802 - methods are named by the contract

from google.protobuf.timestamp_pb2 import Timestamp

from weir.gateway.v1.webhook_service_pb2 import (
    DeleteWebhookEndpointRequest,
    DeleteWebhookEndpointResponse,
    GetWebhookSecretRequest,
    GetWebhookSecretResponse,
    ListWebhookEndpointsRequest,
    ListWebhookEndpointsResponse,
    PutWebhookEndpointRequest,
    PutWebhookEndpointResponse,
    RotateWebhookSecretRequest,
    RotateWebhookSecretResponse,
    WebhookEndpoint,
    WebhookSecret,
)
from weir.gateway.v1.webhook_service_pb2_grpc import WebhookServiceServicer
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.rpc.interceptors.handler import Context
from weir_core.rpc.metadata import AUTHORIZATION, first_value
from weir_gateway.admin.off import NO_SECRET
from weir_gateway.admin.secret import AdminGuard
from weir_gateway.directory.follower import Directory
from weir_gateway.flow.messages import timestamp
from weir_gateway.webhooks.endpoint_store import Endpoint, EndpointStore
from weir_gateway.webhooks.secret_store import Secrets, SecretStore
from weir_gateway.webhooks.url import check_webhook_url

_OVERLAP_MS, _LONGEST_MS = 86_400_000, 7 * 86_400_000


class WebhookServicer(WebhookServiceServicer):
    """Serves administrators.

    Args:
        guard: lets them in; None: no secret is set.
        directory: knows tenants.
        secrets, endpoints: see there.
        allow_http: whether webhooks may go over plain HTTP.
    """

    def __init__(
        self,
        guard: AdminGuard | None,
        directory: Directory,
        secrets: SecretStore,
        endpoints: EndpointStore,
        *,
        allow_http: bool,
    ) -> None:
        self._guard = guard
        self._directory = directory
        self._secrets = secrets
        self._endpoints = endpoints
        self._allow_http = allow_http

    async def GetWebhookSecret(
        self, request: GetWebhookSecretRequest, context: Context
    ) -> GetWebhookSecretResponse:
        """Reads the secret of a tenant."""
        tenant_id = self._admit(context, request.tenant_id)
        return GetWebhookSecretResponse(secret=_secret(await self._secrets.get(tenant_id)))

    async def RotateWebhookSecret(
        self, request: RotateWebhookSecretRequest, context: Context
    ) -> RotateWebhookSecretResponse:
        """Makes a new secret."""
        tenant_id = self._admit(context, request.tenant_id)
        overlap_ms = _OVERLAP_MS
        if request.HasField("overlap"):
            overlap_ms = request.overlap.ToMilliseconds()
        if not 0 <= overlap_ms <= _LONGEST_MS:
            raise InvalidField("overlap", f"{overlap_ms / 1_000} s", "0 to 7 days")
        rotated = await self._secrets.rotate(tenant_id, overlap_ms)
        return RotateWebhookSecretResponse(secret=_secret(rotated))

    async def PutWebhookEndpoint(
        self, request: PutWebhookEndpointRequest, context: Context
    ) -> PutWebhookEndpointResponse:
        """Registers a URL, or enables it again."""
        tenant_id = self._admit(context, request.tenant_id)
        check_webhook_url(request.url, allow_http=self._allow_http, field="url")
        endpoint = await self._endpoints.put(tenant_id, request.url)
        return PutWebhookEndpointResponse(endpoint=_endpoint(endpoint))

    async def ListWebhookEndpoints(
        self, request: ListWebhookEndpointsRequest, context: Context
    ) -> ListWebhookEndpointsResponse:
        """Lists the URLs of a tenant."""
        tenant_id = self._admit(context, request.tenant_id)
        found = await self._endpoints.list(tenant_id)
        return ListWebhookEndpointsResponse(endpoints=map(_endpoint, found))

    async def DeleteWebhookEndpoint(
        self, request: DeleteWebhookEndpointRequest, context: Context
    ) -> DeleteWebhookEndpointResponse:
        """Removes a URL."""
        tenant_id = self._admit(context, request.tenant_id)
        await self._endpoints.delete(tenant_id, request.url)
        return DeleteWebhookEndpointResponse()

    def _admit(self, context: Context, tenant_id: str) -> str:
        if self._guard is None:
            raise WeirError(Reason.ADMINISTRATION_OFF, f"administration is off: {NO_SECRET}")
        self._guard.check(first_value(context.invocation_metadata(), AUTHORIZATION) or "")
        if self._directory.required.tenant(tenant_id) is None:
            raise WeirError(Reason.NOT_FOUND, "there is no such tenant", field="tenant_id")
        return tenant_id


def _secret(found: Secrets) -> WebhookSecret:
    message = WebhookSecret(secret=found.secret, change_time=_time(found.changed_ms))
    if found.previous:
        message.previous = found.previous
        message.previous_expire_time.CopyFrom(_time(found.previous_until_ms))
    return message


def _endpoint(found: Endpoint) -> WebhookEndpoint:
    message = WebhookEndpoint(url=found.url, registered=found.registered)
    if found.disabled_ms:
        message.disable_time.CopyFrom(_time(found.disabled_ms))
    return message


def _time(unix_ms: int) -> Timestamp:
    return timestamp(unix_ms * 1_000)
