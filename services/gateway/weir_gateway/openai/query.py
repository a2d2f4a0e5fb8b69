"""Query parameters of lists."""

from collections.abc import Mapping

from weir_core.errors import InvalidField, Reason, WeirError

_FIELDS = ("page_size", "page_token")
_LONGEST_TOLD = 80


def page_query(query: Mapping[str, str]) -> tuple[int, str]:
    """Size, 0 for the default, and token of the page that is asked for.

    Raises:
        WeirError: INVALID_FIELD for a size that is no number; UNSUPPORTED_FIELD.
    """
    for name in query:
        if name not in _FIELDS:
            told = name[:_LONGEST_TOLD]
            raise WeirError(
                Reason.UNSUPPORTED_FIELD,
                f"the query has no field {told!r}; it takes {', '.join(_FIELDS)}",
                field=told,
            )
    size = query.get("page_size", "0")
    if not (size.isascii() and size.isdigit() and len(size) <= 6):
        raise InvalidField("page_size", size[:_LONGEST_TOLD], "a number")
    return int(size), query.get("page_token", "")
