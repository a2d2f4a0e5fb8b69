"""What a tenant may keep and have waiting for offline work, in the directory file."""

from typing import Annotated

from pydantic import Field

from weir_gateway.directory.entries import Entry, PositiveAmount


class FilesEntry(Entry):
    """What a tenant may keep; see `weir.directory.v1.FilePolicy`."""

    max_files: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    max_bytes: PositiveAmount | None = None


class KeepEntry(Entry):
    """What is kept for a tenant beyond files; see `weir.directory.v1.KeepPolicy`."""

    max_responses: PositiveAmount | None = None
    max_response_bytes: PositiveAmount | None = None
    max_idempotency_keys: PositiveAmount | None = None
    max_idempotency_bytes: PositiveAmount | None = None
    max_webhooks: PositiveAmount | None = None
    max_event_streams: Annotated[int, Field(ge=1, le=100_000)] | None = None


class BatchEntry(Entry):
    """Offline work of a tenant; see `weir.directory.v1.BatchPolicy`.

    Attributes:
        max_enqueued_tokens: prompt and bound of output together, of all jobs and lines of
            batches of one model that wait or run.
        to_job_after_ms: a call of the class batch that no worker has begun by then becomes a job.
    """

    max_enqueued_tokens: PositiveAmount | None = None
    to_job_after_ms: Annotated[int, Field(ge=1, le=600_000)] | None = None
