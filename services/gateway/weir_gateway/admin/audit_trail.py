"""What was changed, when and by whom, newest first."""

from typing import Any

from weir.gateway.v1.admin_service_pb2 import AuditEvent
from weir_core.errors import InvalidField
from weir_core.ids import check_id
from weir_core.rpc.metadata import Metadata, first_value
from weir_gateway.directory.sql.source import SqlDirectory
from weir_gateway.paging import cut, page_size, read_token

ACTOR = "weir-actor"
_LONGEST_ACTOR = 128
_NOBODY = "admin"


class AuditTrail:
    """Reads the trail. Methods raise WeirError."""

    def __init__(self, source: SqlDirectory) -> None:
        self._source = source

    async def page(self, tenant_id: str, size: int, token: str) -> tuple[list[AuditEvent], str]:
        """The page after the one that gave `token`, and its own; empty at the end.

        Args:
            tenant_id: whose objects; empty: everybody's.
        """
        if tenant_id:
            check_id("tenant_id", tenant_id)
        most, before = page_size(size), _event_id(token)
        rows = await self._source.events(tenant_id, before, most + 1)
        page, more = cut(rows, lambda row: str(row["id"]), most)
        return [_event(row) for row in page], more


def actor_of(metadata: Metadata | None) -> str:
    """Who an administrator says it is, by metadata `weir-actor`; `admin` if it says nothing.

    Raises:
        InvalidField: it is too long, or not printable.
    """
    actor = first_value(metadata, ACTOR)
    if len(actor) > _LONGEST_ACTOR or not actor.isprintable():
        raise InvalidField(ACTOR, actor, f"at most {_LONGEST_ACTOR} printable characters")
    return actor or _NOBODY


def _event_id(token: str) -> int:
    text = read_token(token)
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InvalidField("page_token", token, "empty, or a next_page_token")
    return int(text)


def _event(row: dict[str, Any]) -> AuditEvent:
    event = AuditEvent(
        actor=row["actor"],
        action=row["action"],
        object=row["object"],
        directory_version=row["version"],
    )
    event.time.FromMilliseconds(row["time_ms"])
    return event
