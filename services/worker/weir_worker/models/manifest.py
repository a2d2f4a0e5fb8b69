"""What a converted model folder must hold."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from weir_core.model_folder import ModelFileError

_NAME = "manifest.json"
_CONVERTER = 2  # raise it when the converter writes something else from the same source


@dataclass(frozen=True, slots=True)
class Manifest:
    """Origin and content of a converted folder.

    Attributes:
        source_sha256: of the file that was converted.
        files: name -> [bytes, SHA-256].
        converter: version of the conversion.
    """

    source_sha256: str
    files: dict[str, tuple[int, str]]
    converter: int = _CONVERTER

    @classmethod
    def of(cls, folder: Path, source_sha256: str) -> "Manifest":
        """Describe the folder as it stands."""
        files = {
            path.name: (path.stat().st_size, sha256(path))
            for path in sorted(folder.iterdir())
            if path.name != _NAME
        }
        return cls(source_sha256, files)

    @classmethod
    def read(cls, folder: Path) -> "Manifest | None":
        """The folder's manifest; None when it has none that can be read."""
        try:
            fields = json.loads((folder / _NAME).read_bytes())
            files = {
                name: (int(size), str(digest)) for name, (size, digest) in fields["files"].items()
            }
            return cls(str(fields["source_sha256"]), files, int(fields["converter"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    @classmethod
    def confirms(cls, folder: Path, source_sha256: str) -> bool:
        """Whether the folder is the whole conversion of that source by this converter."""
        manifest = cls.read(folder)
        return (
            manifest is not None
            and manifest.source_sha256 == source_sha256
            and manifest.converter == _CONVERTER
            and all(manifest._intact(folder, name) for name in manifest.files)
        )

    def write(self, folder: Path) -> None:
        """Put the manifest into the folder."""
        (folder / _NAME).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    def _intact(self, folder: Path, name: str) -> bool:
        size, digest = self.files[name]
        path = folder / name
        return path.is_file() and path.stat().st_size == size and sha256(path) == digest


def sha256(path: Path) -> str:
    """SHA-256 of a file, hex.

    Raises:
        ModelFileError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from error
