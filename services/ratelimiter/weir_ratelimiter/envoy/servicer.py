"""`envoy.service.ratelimit.v3.RateLimitService`: limits for an Envoy in front of anything."""

from collections.abc import Callable
from typing import Any, Literal

import grpc

from weir.envoy.v3.rate_limit_service_pb2 import RateLimitRequest, RateLimitResponse
from weir.envoy.v3.rate_limit_service_pb2_grpc import RateLimitServiceServicer
from weir_core.errors import Reason, WeirError
from weir_core.telemetry.context import bind_request
from weir_ratelimiter.ask import Ask
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.envoy import answers
from weir_ratelimiter.envoy.charger import Charger
from weir_ratelimiter.envoy.descriptors import ask_from
from weir_ratelimiter.limiter import Limiter

SERVICE = "envoy.service.ratelimit.v3.RateLimitService"

UnknownTenant = Literal["deny", "pass"]


class EnvoyRateLimitServicer(RateLimitServiceServicer):
    """Serves one limiter to Envoys.

    What is wrong with a request is an OVER_LIMIT that says so: as an error it would pass
    through every Envoy without `failure_mode_deny`. Only what is wrong with us is an error, for
    the site's failure mode to decide on.

    Args:
        limiter: the account.
        unknown_tenant: what becomes of requests without a tenant that the directory knows.
        now_ms: wall time, Unix milliseconds.
    """

    def __init__(
        self, limiter: Limiter, unknown_tenant: UnknownTenant, now_ms: Callable[[], int]
    ) -> None:
        self._limiter = limiter
        self._charger = Charger(limiter)
        self._unknown_tenant = unknown_tenant
        self._now_ms = now_ms

    async def ShouldRateLimit(  # noqa: N802
        self,
        request: RateLimitRequest,
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> RateLimitResponse:
        """Charge a request, or refuse it."""
        asked = len(request.descriptors)
        ask: Ask | None = None
        try:
            ask = ask_from(request)
            bind_request(request_id=ask.request_id, tenant_id=ask.subject.tenant_id)
            admission = await self._charger.charge(ask)
        except WeirError as error:
            if error.wire.http >= 500:
                raise
            if error.reason is Reason.NOT_FOUND and self._unknown_tenant == "pass":
                return answers.passed(asked)
            limits = self._limits(ask) if ask is not None else {}
            return answers.refused(error, limits, self._now_ms(), asked)
        return answers.admitted(admission, asked)

    def _limits(self, ask: Ask) -> dict[str, Limit]:
        return self._limiter.book.resolve_for_ending(ask.subject).by_key
