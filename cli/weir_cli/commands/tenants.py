"""`weir tenants`: the tenants of a stack whose directory is a database."""

from typing import Any

from weir.gateway.v1.admin_service_pb2 import GetTenantRequest, PutTenantRequest
from weir_cli.administration import CALL_S, Address, StateDirOption, administer, who
from weir_cli.commands.objects import Name, objects_app
from weir_cli.directory_nouns import TENANT

app = objects_app(TENANT, "List, change, suspend and remove tenants.")


@app.command()
def suspend(name: Name, state_dir: StateDirOption = None, address: Address = "") -> None:
    """Refuse a tenant's requests, and end its open streams."""
    _set_suspended(name, True, state_dir, address)


@app.command()
def resume(name: Name, state_dir: StateDirOption = None, address: Address = "") -> None:
    """Serve a suspended tenant again."""
    _set_suspended(name, False, state_dir, address)


def _set_suspended(name: str, suspended: bool, state_dir: Any, address: str) -> None:
    async def change(stub: Any) -> Any:
        got = await stub.GetTenant(GetTenantRequest(tenant_id=name), timeout=CALL_S, metadata=who())
        got.tenant.suspended = suspended
        request = PutTenantRequest(tenant=got.tenant, expected_version=got.directory_version)
        return await stub.PutTenant(request, timeout=CALL_S, metadata=who())

    answer = administer(address, state_dir, change)
    state = "suspended" if suspended else "served again"
    print(f"tenant {name} is {state}, version {answer.directory_version}")
