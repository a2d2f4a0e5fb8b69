"""A page at a time of a tenant's prefixes, by name and version."""

from weir_core.errors import InvalidField
from weir_gateway.caller.caller import Caller
from weir_gateway.paging import cut, page_size, read_token
from weir_gateway.prefixes.desk import PrefixDesk
from weir_gateway.prefixes.prefix import Prefix, read_reference


class PrefixPages:
    """Reads pages. A token holds `name@version` of the last one of the page before.

    Args:
        desk: see there.
    """

    def __init__(self, desk: PrefixDesk) -> None:
        self._desk = desk

    async def page(self, caller: Caller, size: int, token: str) -> tuple[list[Prefix], str]:
        """The page after the one that gave `token`, and its own; empty at the end.

        Raises:
            WeirError: INVALID_FIELD for a size out of bounds or a token of nobody; as the store.
        """
        most = page_size(size)
        found = await self._desk.page(caller, most + 1, _place(token))
        return cut(found, lambda last: f"{last.name}@{last.version}", most)


def _place(token: str) -> tuple[str, int] | None:
    text = read_token(token)
    if not text:
        return None
    try:
        return read_reference("page_token", text)
    except InvalidField:
        raise InvalidField("page_token", token, "empty, or a next_page_token") from None
