"""The file formats by name."""

from collections.abc import Callable, Sequence

import msgspec

from weir_ratelimiter.ledger.export import cloudevents, csv, jsonl
from weir_ratelimiter.ledger.row import LedgerRow


class Format(msgspec.Struct, frozen=True):
    """How rows become a file: a header once, then rows, in pieces that end at line ends."""

    header: Callable[[], bytes]
    encode: Callable[[Sequence[LedgerRow]], bytes]


FORMATS = {
    "jsonl": Format(jsonl.header, jsonl.encode),
    "csv": Format(csv.header, csv.encode),
    "cloudevents": Format(cloudevents.header, cloudevents.encode),
}
