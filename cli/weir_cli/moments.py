"""Moments that a user names."""

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from weir_cli.errors import CommandError


def moment(option: str, given: str) -> Timestamp | None:
    """A moment in ISO 8601; without a zone it is UTC, without a time midnight; empty: None.

    Raises:
        CommandError: it is none.
    """
    if not given:
        return None
    try:
        parsed = datetime.fromisoformat(given)
    except ValueError:
        raise CommandError(
            f"{option} is {given!r}; it must be like 2026-11-29 or 2026-11-29T12:00:00+01:00"
        ) from None
    stamp = Timestamp()
    stamp.FromDatetime(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))
    return stamp
