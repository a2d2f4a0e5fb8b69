"""`weir webhooks`: what signs the webhooks of a tenant, and where they go."""

from datetime import timedelta
from typing import Annotated, Any

import typer

from weir.gateway.v1.webhook_service_pb2 import (
    DeleteWebhookEndpointRequest,
    GetWebhookSecretRequest,
    ListWebhookEndpointsRequest,
    PutWebhookEndpointRequest,
    RotateWebhookSecretRequest,
    WebhookEndpoint,
    WebhookSecret,
)
from weir.gateway.v1.webhook_service_pb2_grpc import WebhookServiceStub
from weir_cli.administration import CALL_S, Address, StateDirOption, administer
from weir_cli.directory_text import Form, Format, Printed, print_forms
from weir_cli.errors import CommandError
from weir_gateway.directory.units import parse_duration_ms

app = typer.Typer(help="Signed calls that tell tenants what has ended.", no_args_is_help=True)

_SECRET = ("secret", "previous", "previous_until", "changed")
_ENDPOINT = ("url", "registered", "disabled")

Tenant = Annotated[str, typer.Argument(metavar="TENANT", help="Id of a tenant.")]
Target = Annotated[str, typer.Argument(metavar="URL", help="https URL.")]


@app.command()
def secret(
    tenant: Tenant,
    output: Printed = Format.TABLE,
    state_dir: StateDirOption = None,
    address: Address = "",
) -> None:
    """Show what signs a tenant's webhooks."""

    async def ask(stub: Any) -> Any:
        return await stub.GetWebhookSecret(
            GetWebhookSecretRequest(tenant_id=tenant), timeout=CALL_S
        )

    answer = administer(address, state_dir, ask, WebhookServiceStub)
    print_forms(_secret(answer.secret), output, _SECRET)


@app.command()
def rotate(
    tenant: Tenant,
    overlap: Annotated[
        str, typer.Option(help="How long the secret before signs as well, such as 1h; 0s: not.")
    ] = "24h",
    output: Printed = Format.TABLE,
    state_dir: StateDirOption = None,
    address: Address = "",
) -> None:
    """Make a new secret."""
    request = RotateWebhookSecretRequest(tenant_id=tenant)
    try:
        request.overlap.FromTimedelta(timedelta(milliseconds=parse_duration_ms(overlap)))
    except (ValueError, OverflowError) as error:
        raise CommandError(f"--overlap: {error}") from None

    async def ask(stub: Any) -> Any:
        return await stub.RotateWebhookSecret(request, timeout=CALL_S)

    answer = administer(address, state_dir, ask, WebhookServiceStub)
    print_forms(_secret(answer.secret), output, _SECRET)


@app.command()
def put(
    tenant: Tenant,
    url: Target,
    output: Printed = Format.TABLE,
    state_dir: StateDirOption = None,
    address: Address = "",
) -> None:
    """Send every event of a tenant to a URL; enable it again if it was disabled."""

    async def ask(stub: Any) -> Any:
        request = PutWebhookEndpointRequest(tenant_id=tenant, url=url)
        return await stub.PutWebhookEndpoint(request, timeout=CALL_S)

    answer = administer(address, state_dir, ask, WebhookServiceStub)
    print_forms(_endpoint(answer.endpoint), output, _ENDPOINT)


@app.command("list")
def list_endpoints(
    tenant: Tenant,
    output: Printed = Format.TABLE,
    state_dir: StateDirOption = None,
    address: Address = "",
) -> None:
    """List the URLs of a tenant that are registered or disabled."""

    async def ask(stub: Any) -> Any:
        request = ListWebhookEndpointsRequest(tenant_id=tenant)
        return await stub.ListWebhookEndpoints(request, timeout=CALL_S)

    answer = administer(address, state_dir, ask, WebhookServiceStub)
    print_forms([_endpoint(one) for one in answer.endpoints], output, _ENDPOINT)


@app.command()
def delete(
    tenant: Tenant, url: Target, state_dir: StateDirOption = None, address: Address = ""
) -> None:
    """Send no more events of a tenant to a URL."""

    async def ask(stub: Any) -> Any:
        request = DeleteWebhookEndpointRequest(tenant_id=tenant, url=url)
        return await stub.DeleteWebhookEndpoint(request, timeout=CALL_S)

    administer(address, state_dir, ask, WebhookServiceStub)
    print(f"{url} is deleted")


def _secret(found: WebhookSecret) -> Form:
    until = found.previous_expire_time.ToJsonString() if found.previous else ""
    return {
        "secret": found.secret,
        "previous": found.previous,
        "previous_until": until,
        "changed": found.change_time.ToJsonString(),
    }


def _endpoint(found: WebhookEndpoint) -> Form:
    disabled = found.disable_time.ToJsonString() if found.HasField("disable_time") else ""
    return {"url": found.url, "registered": found.registered, "disabled": disabled}
