"""A receiver of traces in a process of its own: python -m bench.seeing.sink

Prints its address, then, for each line on stdin, how many spans came and of how many traces, as
one line of JSON; it ends with its stdin.
"""

import asyncio
import json
import sys

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as pb_grpc

_LONGEST_MESSAGE = 64 * 1024 * 1024


class Sink(pb_grpc.TraceServiceServicer):
    """Counts, and keeps nothing else."""

    def __init__(self) -> None:
        self.spans = 0
        self.traces: set[bytes] = set()

    async def Export(  # noqa: N802
        self, request: pb.ExportTraceServiceRequest, context: object
    ) -> pb.ExportTraceServiceResponse:
        """Takes one batch."""
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans += len(scope.spans)
                self.traces.update(span.trace_id for span in scope.spans)
        return pb.ExportTraceServiceResponse()


async def main() -> None:
    """Serve until stdin ends."""
    sink = Sink()
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", _LONGEST_MESSAGE)])
    pb_grpc.add_TraceServiceServicer_to_server(sink, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"http://127.0.0.1:{port}", flush=True)
    # Asked by people who measure: a thread that waits for a line costs nothing meanwhile.
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps({"spans": sink.spans, "traces": len(sink.traces)}), flush=True)
    await server.stop(0)


if __name__ == "__main__":
    asyncio.run(main())
