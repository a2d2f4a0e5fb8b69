"""What the worker says of an attempt, by id."""

import grpc

from tests.e2e.deployment import Deployment
from weir.common.v1.lifecycle_pb2 import Attempt, TerminalRecord
from weir.worker.v1.worker_service_pb2 import GetTerminalRecordRequest
from weir.worker.v1.worker_service_pb2_grpc import WorkerServiceStub


async def terminal_records(
    stack: Deployment, request_ids: list[str], worker: str = "worker-1"
) -> dict[str, TerminalRecord]:
    """The terminal records of first attempts; what never reached the worker has none."""
    found = {}
    async with stack.inside(worker) as channel:
        stub = WorkerServiceStub(channel)
        for request_id in request_ids:
            attempt = Attempt(request_id=request_id, number=1)
            try:
                answer = await stub.GetTerminalRecord(
                    GetTerminalRecordRequest(attempt=attempt), timeout=10
                )
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    raise
            else:
                found[request_id] = answer.terminal
    return found
