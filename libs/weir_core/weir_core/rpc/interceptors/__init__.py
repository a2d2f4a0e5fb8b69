"""The interceptors of every server, in their fixed order."""

from collections.abc import Collection, Sequence

from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from weir_core.rpc.interceptors.auth import ServiceAuthInterceptor
from weir_core.rpc.interceptors.deadline import DeadlineInterceptor
from weir_core.rpc.interceptors.errors import ErrorsInterceptor
from weir_core.rpc.interceptors.handler import (
    HandlerInterceptor,
    InterceptorChain,
    RpcCall,
    RpcMethod,
)
from weir_core.rpc.interceptors.metrics import MetricsInterceptor
from weir_core.rpc.interceptors.peer_certificate import PeerCertificateInterceptor
from weir_core.rpc.interceptors.tracing import TracingInterceptor
from weir_core.telemetry.tracing import Tracing
from weir_core.tls.identity import TlsIdentity

__all__ = [
    "DeadlineInterceptor",
    "ErrorsInterceptor",
    "HandlerInterceptor",
    "InterceptorChain",
    "MetricsInterceptor",
    "PeerCertificateInterceptor",
    "RpcCall",
    "RpcMethod",
    "ServiceAuthInterceptor",
    "TracingInterceptor",
    "default_interceptors",
]


def default_interceptors(
    *,
    tracing: Tracing,
    registry: CollectorRegistry,
    tokens: Sequence[SecretStr] = (),
    open_services: Collection[str] = (),
    tls: TlsIdentity | None = None,
    default_deadline_s: float | None = 30.0,
) -> list[HandlerInterceptor]:
    """Interceptors for `create_server`, outermost first.

    1. tracing: the span covers everything, and the request id is known to all logs.
    2. metrics: refusals of the inner ones are counted too.
    3. errors: exceptions of all below become statuses.
    4. deadline: too late is refused before anything is done.
    5. certificates: only with `tls`.
    6. service auth: only with `tokens`.

    Args:
        tracing: of the service.
        registry: metrics are added to it; one set of interceptors per registry.
        tokens: accepted cluster secrets; none means no check.
        open_services: services that the last two do not cover.
        tls: of the connections between services; None: none is asked for a certificate.
        default_deadline_s: bound of unary calls that came without a deadline.
    """
    chain: list[HandlerInterceptor] = [
        TracingInterceptor(tracing),
        MetricsInterceptor(registry),
        ErrorsInterceptor(),
        DeadlineInterceptor(default_s=default_deadline_s),
    ]
    if tls is not None:
        chain.append(PeerCertificateInterceptor(tls.peer_domain, open_services=open_services))
    if tokens:
        chain.append(ServiceAuthInterceptor(tokens, open_services=open_services))
    return chain
