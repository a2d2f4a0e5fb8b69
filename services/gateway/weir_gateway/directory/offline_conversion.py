"""What a tenant may keep and have waiting, as the directory has it."""

from weir.directory.v1.directory_pb2 import BatchPolicy, FilePolicy, KeepPolicy
from weir_gateway.directory.offline_entries import BatchEntry, FilesEntry, KeepEntry


def to_file_policy(entry: FilesEntry) -> FilePolicy | None:
    """None when nothing is set: then all of it is the plan's."""
    if entry == FilesEntry():
        return None
    return FilePolicy(max_files=entry.max_files, max_bytes=entry.max_bytes)


def to_batch_policy(entry: BatchEntry) -> BatchPolicy | None:
    """None when nothing is set: then all of it is the plan's."""
    if entry == BatchEntry():
        return None
    return BatchPolicy(
        max_enqueued_tokens=entry.max_enqueued_tokens, to_job_after_ms=entry.to_job_after_ms
    )


def to_keep_policy(entry: KeepEntry) -> KeepPolicy | None:
    """None when nothing is set: then all of it is the plan's."""
    if entry == KeepEntry():
        return None
    return KeepPolicy(**entry.model_dump(exclude_none=True))
