"""Finds what a message said and the directory did not take."""

from typing import Any

from google.protobuf.message import Message

from weir_core.directory import DirectoryIndex
from weir_core.errors import Reason, WeirError
from weir_gateway.directory.sql.find import find
from weir_gateway.directory.sql.records import Draft


def check_whole(draft: Draft, index: DirectoryIndex) -> None:
    """Checks that nothing that was sent got lost on the way to what is stored.

    Raises:
        WeirError: INVALID_FIELD; it names the field.
    """
    for sent in draft.sent:
        lost = first_lost(sent.message, find(index, sent.kind, sent.id))
        if lost:
            raise WeirError(
                Reason.INVALID_FIELD,
                f"{sent.kind}.{lost} cannot be kept as it was sent: it has no place in the "
                "directory, or does not go with the other fields",
                field=f"{sent.kind}.{lost}",
            )


def first_lost(sent: Message, stored: Message, path: str = "") -> str:
    """Path of the first field of `sent` that `stored` has otherwise; empty when there is none.

    What `sent` leaves unset may have been filled with defaults.
    """
    for field, value in sent.ListFields():
        name = f"{path}.{field.name}" if path else field.name
        if lost := _lost(value, getattr(stored, field.name), name):
            return lost
    return ""


def _lost(sent: Any, stored: Any, path: str) -> str:
    if isinstance(sent, Message) and isinstance(stored, Message):
        return first_lost(sent, stored, path)
    if hasattr(sent, "items") and hasattr(stored, "items"):  # a map
        return next((x for k in sent if (x := _in_map(sent, stored, k, path))), "")
    if isinstance(sent, str | bytes | int | float) or not hasattr(sent, "__len__"):
        return "" if sent == stored else path
    given, kept = list(sent), list(stored)
    if len(given) != len(kept):
        return path
    pairs = enumerate(zip(given, kept, strict=True))
    return next((x for at, (a, b) in pairs if (x := _lost(a, b, f"{path}[{at}]"))), "")


def _in_map(sent: Any, stored: Any, key: str, path: str) -> str:
    name = f"{path}[{key!r}]"
    if key not in stored:
        return name
    return _lost(sent[key], stored[key], name)
