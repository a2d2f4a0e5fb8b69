"""Files of the pages, by what is in them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
INDEX = "index.html"
_LONGEST = 200
"""What file systems call too long is an error of theirs, and not a file that is not there."""

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/vnd.microsoft.icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent.

    Attributes:
        content: all of it.
        content_type: by its ending.
        etag: quoted digest of the content.
    """

    content: bytes
    content_type: str
    etag: str


class StaticFiles:
    """Reads files of a folder, again once they change. Files of other endings are not served.

    Args:
        folder: whose files; links out of it are not followed.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder.resolve()
        self._known: dict[str, tuple[tuple[int, int], StaticFile]] = {}

    def find(self, name: str) -> StaticFile | None:
        """The file of a relative path; None if there is none."""
        if "\0" in name or len(name) > _LONGEST:
            return None
        path = (self._folder / name).resolve()
        content_type = _TYPES.get(path.suffix)
        if content_type is None or not path.is_relative_to(self._folder) or not path.is_file():
            return None
        status = path.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        known = self._known.get(str(path))
        if known is not None and known[0] == stamp:
            return known[1]
        content = path.read_bytes()
        etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        file = StaticFile(content, content_type, etag)
        self._known[str(path)] = (stamp, file)
        return file
