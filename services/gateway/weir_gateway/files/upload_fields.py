"""The small fields of an upload."""

from collections.abc import Mapping
from dataclasses import dataclass

from weir_core.errors import InvalidField, Reason, WeirError
from weir_gateway.files.file import UPLOADED, Purpose

_DAY_MS = 86_400_000
_DEFAULT_TTL_MS = {Purpose.BATCH: 30 * _DAY_MS, Purpose.BATCH_OUTPUT: 30 * _DAY_MS}
_ANCHOR, _SECONDS = "expires_after[anchor]", "expires_after[seconds]"
_SHORTEST_S, _LONGEST_S = 3_600, 2_592_000


@dataclass(frozen=True, slots=True)
class UploadFields:
    """What an upload says of its file.

    Attributes:
        purpose: see there.
        ttl_ms: after which it is removed; 0: never.
    """

    purpose: Purpose
    ttl_ms: int


def read_fields(fields: Mapping[str, str]) -> UploadFields:
    """The fields of a form. Raises WeirError: one is bad, or there is no such field."""
    known = {"purpose", _ANCHOR, _SECONDS}
    unknown = next((name for name in fields if name not in known), None)
    if unknown is not None:
        raise WeirError(
            Reason.UNSUPPORTED_FIELD,
            f"{unknown[:64]} is not supported: there is no such field",
            field=unknown[:64],
        )
    given = fields.get("purpose")
    purpose = next((one for one in UPLOADED if one == given), None)
    if purpose is None:
        raise InvalidField("purpose", given, f"one of {', '.join(UPLOADED)}")
    if _ANCHOR not in fields and _SECONDS not in fields:
        return UploadFields(purpose, default_ttl_ms(purpose))
    if fields.get(_ANCHOR) != "created_at":
        raise InvalidField(_ANCHOR, fields.get(_ANCHOR), "created_at")
    text = fields.get(_SECONDS, "")
    seconds = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text
    return UploadFields(purpose, ttl_ms_of(_SECONDS, seconds))


def ttl_ms_of(field: str, seconds: object) -> int:
    """The milliseconds of an `expires_after.seconds`. Raises InvalidField."""
    if type(seconds) is not int or not _SHORTEST_S <= seconds <= _LONGEST_S:
        raise InvalidField(field, seconds, f"from {_SHORTEST_S} to {_LONGEST_S} seconds")
    return 1_000 * seconds


def default_ttl_ms(purpose: Purpose) -> int:
    """How long a file is kept that nobody said anything of."""
    return _DEFAULT_TTL_MS.get(purpose, 0)
