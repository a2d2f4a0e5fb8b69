"""`weir admin`: the audit trail of a stack whose directory is a database."""

from typing import Annotated, Any

import typer

from weir.gateway.v1.admin_service_pb2 import ListAuditEventsRequest
from weir_cli.administration import CALL_S, Address, StateDirOption, administer, who
from weir_cli.directory_text import Format, Printed, print_forms

app = typer.Typer(help="What administrators did.", no_args_is_help=True)

_COLUMNS = ("time", "actor", "action", "object", "version")
_PAGE = 1_000


@app.callback()
def _group() -> None:
    """Keeps `audit` a command of its own."""


@app.command()
def audit(
    tenant: Annotated[str, typer.Option(help="Only what was done to this tenant.")] = "",
    last: Annotated[int, typer.Option(min=1, max=_PAGE, help="How many at most.")] = 50,
    output: Printed = Format.TABLE,
    state_dir: StateDirOption = None,
    address: Address = "",
) -> None:
    """List changes of the directory, newest first."""
    request = ListAuditEventsRequest(tenant_id=tenant, page_size=last)

    async def ask(stub: Any) -> Any:
        return await stub.ListAuditEvents(request, timeout=CALL_S, metadata=who())

    events = administer(address, state_dir, ask).events
    print_forms([_form(event) for event in events], output, _COLUMNS)


def _form(event: Any) -> dict[str, Any]:
    return {
        "time": event.time.ToJsonString(),
        "actor": event.actor,
        "action": event.action,
        "object": event.object,
        "version": event.directory_version,
    }
