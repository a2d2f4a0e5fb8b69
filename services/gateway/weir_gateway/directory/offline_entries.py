"""What a tenant may keep and have waiting for offline work, in the directory file."""

from typing import Annotated

from pydantic import Field

from weir_gateway.directory.entries import Entry, PositiveAmount


class FilesEntry(Entry):
    """What a tenant may keep; see `weir.directory.v1.FilePolicy`."""

    max_files: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    max_bytes: PositiveAmount | None = None


class BatchEntry(Entry):
    """Offline work of a tenant; see `weir.directory.v1.BatchPolicy`.

    Attributes:
        max_enqueued_tokens: prompt and bound of output together, of all jobs and lines of
            batches of one model that wait or run.
    """

    max_enqueued_tokens: PositiveAmount | None = None
