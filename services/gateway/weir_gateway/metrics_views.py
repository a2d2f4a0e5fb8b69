"""`GET /metrics`: everything for operators; of a tenant, for its keys, what is its own."""

import hmac
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import Response

from weir_core.errors import Reason, WeirError
from weir_core.telemetry.metrics import OTHER
from weir_gateway.caller.caller import Caller
from weir_gateway.metrics import GatewayMetrics
from weir_gateway.settings import GatewaySettings

_SCHEME = "bearer "


class _Collected(Protocol):
    def collect(self) -> Iterable[Metric]: ...


class MetricsViews:
    """What is counted, and who may see which of it.

    Tenants with a store of their own have a registry of their own, with the times and lengths of
    their requests alone; every other sees those series of the common one that name it.

    Args:
        settings: of the process.
        registry: of the process.
        cluster_secret: lets operators in, as the admin secret does.
    """

    def __init__(
        self, settings: GatewaySettings, registry: CollectorRegistry, cluster_secret: SecretStr
    ) -> None:
        secrets = [cluster_secret, settings.admin_secret]
        self._secrets = [one.get_secret_value().encode() for one in secrets if one is not None]
        self._open = settings.open_metrics
        self._registry = registry
        self._own = {tenant: CollectorRegistry() for tenant in settings.tenant_stores}
        own = {tenant: GatewayMetrics(view) for tenant, view in self._own.items()}
        self.metrics = GatewayMetrics(registry, own)

    async def show(
        self, request: Request, authenticate: Callable[[str | None], Caller]
    ) -> Response:
        """The page.

        Raises:
            WeirError: neither a key nor a secret, or a tenant that is not the key's.
        """
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        shown = self._shown(request, authenticate)
        return Response(encode(shown), headers={"content-type": content_type})

    def _shown(self, request: Request, authenticate: Callable[[str | None], Caller]) -> _Collected:
        asked = request.query_params.get("tenant", "")
        header = request.headers.get("authorization")
        if self._is_operator(header) or (self._open and not asked):
            return self._of(asked) if asked else self._registry
        caller = authenticate(header)
        if asked not in ("", caller.tenant_id):
            raise WeirError(
                Reason.NOT_FOUND,
                "there are no metrics of that tenant for this key; leave `tenant` out, or name "
                "the key's own",
                field="tenant",
            )
        return self._of(caller.tenant_id)

    def _of(self, tenant: str) -> _Collected:
        return self._own.get(tenant) or _OfTenant(self._registry, tenant)

    def _is_operator(self, header: str | None) -> bool:
        if header is None or header[: len(_SCHEME)].lower() != _SCHEME:
            return False
        sent = header[len(_SCHEME) :].strip().encode()
        # All are compared, each in constant time.
        matches = [hmac.compare_digest(sent, secret) for secret in self._secrets]
        return any(matches)


class _OfTenant:
    """The series of a registry that name one tenant."""

    def __init__(self, registry: CollectorRegistry, tenant: str) -> None:
        self._registry = registry
        self._tenant = tenant

    def collect(self) -> Iterator[Metric]:
        """Families with what is left of them."""
        # Beyond the cap, tenants are counted together under this name.
        if self._tenant == OTHER:
            return
        for metric in self._registry.collect():
            samples = [s for s in metric.samples if s.labels.get("tenant") == self._tenant]
            if samples:
                metric.samples = samples
                yield metric
