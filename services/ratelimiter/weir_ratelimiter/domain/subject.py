"""Who a reservation belongs to."""

import re

import msgspec

from weir_core.errors import InvalidField

_ID = re.compile(r"[A-Za-z0-9._:/-]{1,128}", re.ASCII)
_ID_BOUND = "1 to 128 characters of A-Z a-z 0-9 . _ : / -"


class Subject(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The chain that limits are keyed by; `user_id` and `api_key_id` may be empty."""

    tenant_id: str
    user_id: str
    api_key_id: str
    model: str
    model_version: str = ""


def check_id(field: str, value: str) -> str:
    """Return an id unchanged.

    Raises:
        InvalidField: it is empty, longer than 128 characters, or holds anything but
            `A-Za-z0-9._:/-`: look-alikes, line ends, NUL and braces never reach a key.
    """
    if not _ID.fullmatch(value):
        raise InvalidField(field, value, _ID_BOUND)
    return value


def check_subject(subject: Subject, *, model_needed: bool = True) -> Subject:
    """Return a subject unchanged if each of its ids is well formed.

    Raises:
        InvalidField: naming the id.
    """
    check_id("subject.tenant_id", subject.tenant_id)
    if model_needed or subject.model:
        check_id("subject.model", subject.model)
    for field in ("user_id", "api_key_id", "model_version"):
        value = getattr(subject, field)
        if value:
            check_id(f"subject.{field}", value)
    return subject
