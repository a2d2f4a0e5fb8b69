"""The yardstick: a grpc.aio server that answers every ReserveRequest with itself.

No interceptors, no logic; event loop and channel arguments as in the services.
"""

import asyncio

import grpc
import uvloop

from weir.ratelimiter.v1.ratelimiter_service_pb2 import ReserveRequest
from weir_core.rpc.options import server_options

ECHO = "/bench.Echo/Echo"


async def main() -> None:
    """Prints the port, then serves until it is killed."""
    server = grpc.aio.server(options=server_options())
    _, service, method = ECHO.split("/")
    handler = grpc.unary_unary_rpc_method_handler(
        _echo,
        request_deserializer=ReserveRequest.FromString,
        response_serializer=ReserveRequest.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


async def _echo(request: ReserveRequest, _: object) -> ReserveRequest:
    return request


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
