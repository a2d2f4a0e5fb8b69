"""AdminService where there is none: every RPC says why."""

from typing import Any

from weir.gateway.v1.admin_service_pb2 import DESCRIPTOR
from weir.gateway.v1.admin_service_pb2_grpc import AdminServiceServicer
from weir_core.errors import Reason, WeirError

NO_CONTROL = "this gateway has the role edge; ask the one that serves the directory"
NO_DATABASE = (
    "the directory is a file: change the file, or give the gateway a database_url to administer it"
)
NO_SECRET = "no admin secret is set; set WEIR_ADMIN_SECRET of the gateway"


def admin_off(why: str) -> AdminServiceServicer:
    """A servicer that refuses every RPC with ADMINISTRATION_OFF and `why`."""

    async def refuse(_: Any, __: Any, ___: Any) -> Any:
        raise WeirError(Reason.ADMINISTRATION_OFF, f"administration is off: {why}")

    methods = DESCRIPTOR.services_by_name["AdminService"].methods
    made: Any = type("AdminOff", (AdminServiceServicer,), {one.name: refuse for one in methods})
    servicer: AdminServiceServicer = made()
    return servicer
