"""Public services of the contract that are not built: every RPC answers UNIMPLEMENTED."""

from typing import Any

import grpc

from weir.gateway.v1.job_service_pb2_grpc import (
    JobServiceServicer,
    add_JobServiceServicer_to_server,
)
from weir.gateway.v1.session_service_pb2_grpc import (
    SessionServiceServicer,
    add_SessionServiceServicer_to_server,
)


def add_unbuilt_services(server: grpc.aio.Server) -> None:
    """Adds sessions and jobs; the interceptors refuse bare servicers."""
    # The stubs declare the generated classes as abstract; they can be made all the same.
    session: Any = SessionServiceServicer
    job: Any = JobServiceServicer
    add_SessionServiceServicer_to_server(session(), server)
    add_JobServiceServicer_to_server(job(), server)
