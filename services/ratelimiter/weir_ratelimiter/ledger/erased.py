"""What is left of a row when its tenant is erased."""

import msgspec

from weir_ratelimiter.ledger.pseudonyms import Pseudonyms
from weir_ratelimiter.ledger.row import LedgerRow

NAMES = (
    "user_id",
    "api_key_id",
    "reservation_id",
    "request_id",
    "trace_id",
    "limit_id",
    "note",
)
"""Columns that get pseudonyms, beside `tenant_id`."""


def erased_row(row: LedgerRow, pseudonyms: Pseudonyms) -> LedgerRow:
    """The row with pseudonyms for all that identifies; numbers, model and worker stay.

    Also the reservation id, which anybody can derive from the request id.
    """
    names = {field: pseudonyms.of(field, row.tenant_id, getattr(row, field)) for field in NAMES}
    return msgspec.structs.replace(row, tenant_id=pseudonyms.tenant(row.tenant_id), **names)
