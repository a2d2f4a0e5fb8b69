"""What a tenant may keep in files."""

from dataclasses import dataclass

from weir.directory.v1.directory_pb2 import FilePolicy
from weir_core.errors import Reason, WeirError

MAX_FILE_BYTES = 209_715_200
"""Of one file: 200 MiB."""

FORM_BYTES = 1_000_000
"""Of an upload, its file apart."""

_MAX_FILES = 1_000
_MAX_BYTES = 10_000_000_000


@dataclass(frozen=True, slots=True)
class FileBounds:
    """Bounds of one tenant.

    Attributes:
        files: kept at once.
        size: bytes of all of them.
    """

    files: int
    size: int

    def check_count(self, kept: int) -> None:
        """Whether one more file fits. Raises WeirError(STORAGE_EXCEEDED)."""
        if kept >= self.files:
            raise WeirError(
                Reason.STORAGE_EXCEEDED,
                f"the account keeps {kept} files of at most {self.files}; delete some, or have "
                "files.max_files of your policy raised",
                metadata={"limit": str(self.files), "used": str(kept), "requested": "1"},
            )

    def check_size(self, kept: int, more: int) -> None:
        """Whether so many bytes more fit. Raises WeirError(STORAGE_EXCEEDED)."""
        if kept + more > self.size:
            raise WeirError(
                Reason.STORAGE_EXCEEDED,
                f"the account keeps {kept} bytes of files of at most {self.size}, and this one "
                f"has {more} or more; delete files, or have files.max_bytes of your policy raised",
                metadata={"limit": str(self.size), "used": str(kept), "requested": str(more)},
            )


def bounds_of(policy: FilePolicy) -> FileBounds:
    """The bounds that a policy sets; what it leaves out has a default."""
    return FileBounds(
        files=policy.max_files if policy.HasField("max_files") else _MAX_FILES,
        size=policy.max_bytes if policy.HasField("max_bytes") else _MAX_BYTES,
    )
