"""The server that Envoys ask: apart from the cluster's own, as Envoy knows no cluster secret."""

from collections.abc import Callable, Sequence

import grpc

from weir.envoy.v3.rate_limit_service_pb2_grpc import add_RateLimitServiceServicer_to_server
from weir_core.rpc.interceptors import HandlerInterceptor, ServiceAuthInterceptor
from weir_core.rpc.server import create_server
from weir_core.telemetry.logs import get_logger
from weir_ratelimiter.envoy.servicer import EnvoyRateLimitServicer
from weir_ratelimiter.limiter import Limiter
from weir_ratelimiter.settings import RateLimiterSettings

_log = get_logger(__name__)

_KNOB = "--envoy-secret and the `initial_metadata` of Envoy's `grpc_service`"


def envoy_server(
    settings: RateLimiterSettings,
    limiter: Limiter,
    interceptors: Sequence[HandlerInterceptor],
    now_ms: Callable[[], int],
) -> grpc.aio.Server:
    """A server of this event loop, not yet bound or started.

    Args:
        settings: `envoy_secret` and `envoy_unknown_tenant` are read.
        limiter: the account that is asked.
        interceptors: of the process, without authentication.
        now_ms: wall time, Unix milliseconds.
    """
    chain = list(interceptors)
    if settings.envoy_secret is None:
        _log.warning("envoy_port_is_open", address=settings.envoy_address, knob="envoy_secret")
    else:
        secrets = [settings.envoy_secret]
        chain.append(ServiceAuthInterceptor(secrets, secret="the Envoy secret", knob=_KNOB))
    server = create_server(interceptors=chain)
    servicer = EnvoyRateLimitServicer(limiter, settings.envoy_unknown_tenant, now_ms)
    add_RateLimitServiceServicer_to_server(servicer, server)
    return server
