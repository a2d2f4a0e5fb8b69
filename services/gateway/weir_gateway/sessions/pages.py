"""A page at a time of a tenant's sessions, the newest first."""

from weir_core.errors import InvalidField
from weir_core.ids import is_caller_id
from weir_gateway.caller.caller import Caller
from weir_gateway.paging import cut, page_size, read_token
from weir_gateway.sessions.desk import SessionDesk
from weir_gateway.sessions.session import Session


class SessionPages:
    """Reads pages. A token holds creation time and id of the last session of the page before.

    Args:
        desk: see there.
    """

    def __init__(self, desk: SessionDesk) -> None:
        self._desk = desk

    async def page(self, caller: Caller, size: int, token: str) -> tuple[list[Session], str]:
        """The page after the one that gave `token`, and its own; empty at the end.

        Raises:
            WeirError: INVALID_FIELD for a size out of bounds or a token of nobody; as the store.
        """
        most = page_size(size)
        found = await self._desk.page(caller, most + 1, _place(token))
        return cut(found, lambda last: f"{last.created_ms} {last.id}", most)


def _place(token: str) -> tuple[int, str] | None:
    text = read_token(token)
    if not text:
        return None
    created_ms, _, session_id = text.partition(" ")
    digits = created_ms.isascii() and created_ms.isdigit() and len(created_ms) < 19
    if not (digits and is_caller_id(session_id)):
        raise InvalidField("page_token", token, "empty, or a next_page_token")
    return int(created_ms), session_id
