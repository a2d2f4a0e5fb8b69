"""A start of which nothing ran."""

from weir.common.v1.lifecycle_pb2 import TerminalRecord
from weir_core.errors import WeirError


class StartRefused(Exception):
    """Nothing of the attempt ran.

    Attributes:
        error: why.
        record: the same as a REJECTED terminal record.
    """

    def __init__(self, error: WeirError, record: TerminalRecord) -> None:
        super().__init__(error.message)
        self.error = error
        self.record = record
