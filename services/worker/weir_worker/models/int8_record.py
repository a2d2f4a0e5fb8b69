"""What a measurement of a model's 8-bit form found: the ground on which it is used by itself."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weir_core.model_folder import ModelFileError
from weir_worker.models.manifest import sha256

MAX_KL = 0.02
MIN_TOP1 = 0.93
_NAME = "int8_quality.json"
# Measured with this source: of models that are fetched rather than brought.
SHIPPED = Path(__file__).with_name("int8_records.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Record:
    """Agreement of the 8-bit form with the fp32 form of the same weights.

    Attributes:
        weights_sha256: of the weights, see `weights_digest`.
        method: how they were rounded, see `Parts.int8_method`.
        tokens: of each text.
        texts: name -> [mean KL divergence in nats, agreement on the likeliest token].
    """

    weights_sha256: str
    method: str
    tokens: int
    texts: dict[str, tuple[float, float]]

    @property
    def kl(self) -> float:
        """Divergence of the worst text."""
        return max(kl for kl, _ in self.texts.values())

    @property
    def top1(self) -> float:
        """Agreement of the worst text."""
        return min(top1 for _, top1 in self.texts.values())

    @property
    def good(self) -> bool:
        """Whether the 8-bit form may be chosen where nobody asked for it."""
        return self.kl <= MAX_KL and self.top1 >= MIN_TOP1

    @classmethod
    def find(cls, folder: Path, method: str) -> "Int8Record | None":
        """The record of a model folder, kept in it or shipped; None if there is none."""
        records = [*_read(folder / _NAME), *_read(SHIPPED)]
        candidates = [record for record in records if record.method == method]
        if not candidates:
            return None
        digest = weights_digest(folder)
        matching = (record for record in candidates if record.weights_sha256 == digest)
        return next(matching, None)

    def write(self, folder: Path) -> Path:
        """Keep it in the model folder, in the place of one of the same method.

        Raises:
            ModelFileError: the folder cannot be written.
        """
        path = folder / _NAME
        records = [*(each for each in _read(path) if each.method != self.method), self]
        try:
            path.write_text(json.dumps([asdict(each) for each in records], indent=1) + "\n")
        except OSError as error:
            raise ModelFileError(path, f"cannot be written: {error.strerror}") from error
        return path


def weights_digest(folder: Path) -> str:
    """SHA-256 over the SHA-256 of each safetensors file, in order of name.

    Raises:
        ModelFileError: a file cannot be read.
    """
    files = sorted(folder.glob("*.safetensors"))
    return hashlib.sha256("".join(sha256(file) for file in files).encode()).hexdigest()


def _read(path: Path) -> list[Int8Record]:
    try:
        return [_parsed(fields) for fields in json.loads(path.read_bytes()) if fields["texts"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _parsed(fields: Mapping[str, Any]) -> Int8Record:
    return Int8Record(
        weights_sha256=str(fields["weights_sha256"]),
        method=str(fields["method"]),
        tokens=int(fields["tokens"]),
        texts={name: (float(kl), float(top1)) for name, (kl, top1) in fields["texts"].items()},
    )
