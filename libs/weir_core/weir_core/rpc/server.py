"""Server creation and reflection."""

from collections.abc import Sequence

import grpc
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection

from weir_core.rpc.interceptors.handler import HandlerInterceptor, InterceptorChain
from weir_core.rpc.options import DEFAULT_MAX_MESSAGE_BYTES, server_options


def create_server(
    *,
    interceptors: Sequence[HandlerInterceptor] = (),
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    max_concurrent_rpcs: int | None = None,
    options: Sequence[tuple[str, int | str]] = (),
) -> grpc.aio.Server:
    """A server of this event loop, not yet bound or started.

    Args:
        interceptors: outermost first, such as those of `default_interceptors`.
        max_message_bytes: a larger request is refused by gRPC with RESOURCE_EXHAUSTED.
        max_concurrent_rpcs: last-ditch bound on calls at once; None for none.
        options: gRPC channel arguments that override the defaults of `server_options`.
    """
    return grpc.aio.server(
        interceptors=[InterceptorChain(interceptors)],
        options=server_options(max_message_bytes=max_message_bytes, extra=options),
        maximum_concurrent_rpcs=max_concurrent_rpcs,
    )


def add_reflection(server: grpc.aio.Server, services: Sequence[str]) -> None:
    """Adds server reflection for `services` (full names), itself and health."""
    health_name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
    reflection.enable_server_reflection((*services, health_name, reflection.SERVICE_NAME), server)
