"""A page at a time of a list, in the order of its ids."""

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from weir_core.errors import InvalidField

_T = TypeVar("_T")
_DEFAULT, _MOST = 100, 1_000


def page_size(asked: int) -> int:
    """How many a page holds.

    Raises:
        InvalidField: `asked` is out of bounds.
    """
    if not 0 <= asked <= _MOST:
        raise InvalidField("page_size", asked, f"from 1 to {_MOST}, or 0 for {_DEFAULT}")
    return asked or _DEFAULT


def page_of(
    items: Iterable[_T], name_of: Callable[[_T], str], size: int, token: str
) -> tuple[list[_T], str]:
    """The page after the one that gave `token`, and its own; empty at the end.

    Raises:
        InvalidField: the size is out of bounds, or the token is not one of ours.
    """
    most, after = page_size(size), read_token(token)
    rest = sorted((item for item in items if name_of(item) > after), key=name_of)
    return cut(rest, name_of, most)


def cut(found: Sequence[_T], name_of: Callable[[_T], str], most: int) -> tuple[list[_T], str]:
    """At most `most` of what was found, and the token of the page after; empty at the end.

    Args:
        found: one more than `most`, if there are so many.
        name_of: what is read of the token again, to go on from there.
        most: on the page.
    """
    page = list(found[:most])
    return page, make_token(name_of(page[-1])) if len(found) > most else ""


def make_token(name: str) -> str:
    """The token of the page that comes after `name`."""
    return base64.urlsafe_b64encode(name.encode()).decode()


def read_token(token: str) -> str:
    """The name that a token stands for; empty for none.

    Raises:
        InvalidField: it is not one of ours.
    """
    try:
        name = base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        name = "\0"
    if "\0" in name:
        # Which no name has, and not every database takes.
        raise InvalidField("page_token", token, "empty, or a next_page_token")
    return name
