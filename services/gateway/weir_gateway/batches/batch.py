"""One batch, as the database keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from weir.common.v1.usage_pb2 import Usage


class BatchState(StrEnum):
    """Life of a batch, in OpenAI's words."""

    VALIDATING = "validating"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing changes any more."""
        return self in _ENDS


_ENDS = frozenset(
    {BatchState.FAILED, BatchState.COMPLETED, BatchState.EXPIRED, BatchState.CANCELLED}
)


@dataclass(frozen=True, slots=True)
class BatchError:
    """What is wrong with an input file.

    Attributes:
        code: in OpenAI's words where there are such.
        message: for a person.
        line: of the file, from 1; 0: the whole file.
        param: the field to blame; empty for none.
    """

    code: str
    message: str
    line: int = 0
    param: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch; times are Unix milliseconds, 0 for not yet.

    Attributes:
        id: `batch_` and a UUIDv7, so that ids sort by time.
        tenant_id, user_id, api_key_id: its owner; lines run under the owner's present standing.
        endpoint: such as `/v1/chat/completions`.
        model: by its public name; empty until the input was checked.
        deadline_ms: the end of its completion window.
        output_ttl_ms: how long its output is kept.
        traceparent: of the span that created it; attempts of its lines link there.
        total: lines; 0 until the input was checked.
        completed, failed: lines, once all have ended.
        inserted: lines that are jobs by now.
        inserted_bytes: of the input that these lines take.
        written: lines that are in the output by now.
        enqueued_tokens: of the lines that are no jobs yet.
        line_tokens: of all lines, 8 bytes each, until all are jobs.
    """

    id: str
    tenant_id: str
    user_id: str
    api_key_id: str
    endpoint: str
    input_file_id: str
    created_ms: int
    deadline_ms: int
    output_ttl_ms: int
    webhook_url: str
    metadata: Mapping[str, str]
    traceparent: str = ""
    state: BatchState = BatchState.VALIDATING
    model: str = ""
    output_file_id: str = ""
    error_file_id: str = ""
    in_progress_ms: int = 0
    finalizing_ms: int = 0
    cancelling_ms: int = 0
    ended_ms: int = 0
    total: int = 0
    completed: int = 0
    failed: int = 0
    inserted: int = 0
    inserted_bytes: int = 0
    written: int = 0
    enqueued_tokens: int = 0
    line_tokens: bytes = b""
    errors: tuple[BatchError, ...] = ()
    usage: Usage = field(default_factory=Usage)
