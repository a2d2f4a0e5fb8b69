"""Converts a GGUF file into a Hugging Face folder in fp32."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout

from weir_core.model_folder import ModelFileError
from weir_worker.models.gguf_config import hugging_face_config, layout_of, special_tokens
from weir_worker.models.gguf_file import GgufFile, open_gguf
from weir_worker.models.gguf_tokenizer import build_tokenizer
from weir_worker.models.llama_layout import is_norm
from weir_worker.models.manifest import Manifest, sha256
from weir_worker.models.origins import tensor_origins
from weir_worker.models.safetensors_writer import write_safetensors

_ROTATED = ("self_attn.q_proj", "self_attn.k_proj")
_LOCK_TIMEOUT_S = 900.0


def convert_gguf(source: Path, target: Path) -> Path:
    """Make `target` the converted form of `source`, unless it is that already.

    A lock holds two converters apart; the folder appears whole or not at all.

    Returns:
        `target`.

    Raises:
        ModelFileError: the file is no GGUF file, is damaged, or of a kind not supported; the
            target cannot be written.
    """
    digest = sha256(source)
    with folder_lock(target):
        if not Manifest.confirms(target, digest):
            replace_folder(source, target, digest)
    return target


@contextmanager
def folder_lock(target: Path) -> Iterator[None]:
    """Keep other processes from making `target` meanwhile.

    Raises:
        ModelFileError: another one holds the lock for 15 minutes, or it cannot be made.
    """
    path = target.parent / f".{target.name}.lock"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path).acquire(timeout=_LOCK_TIMEOUT_S)
    except Timeout as error:
        problem = f"another process has held this lock for {_LOCK_TIMEOUT_S:.0f} s"
        raise ModelFileError(path, problem) from error
    except OSError as error:
        raise ModelFileError(path, f"cannot be written: {error.strerror}") from error
    with lock:
        yield


def replace_folder(source: Path, target: Path, digest: str) -> None:
    """Convert into a folder beside `target`, then put it in its place; the lock is held."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as made:
        folder = Path(made) / target.name
        folder.mkdir()
        try:
            _write_folder(open_gguf(source), folder)
            Manifest.of(folder, digest).write(folder)
            if target.exists():
                shutil.rmtree(target)
            folder.rename(target)
        except OSError as error:
            raise ModelFileError(target, f"cannot be written: {error.strerror}") from error


def _write_folder(file: GgufFile, folder: Path) -> None:
    config = hugging_face_config(file)
    _write_json(folder / "config.json", config)
    _write_json(folder / "tokenizer_config.json", special_tokens(file))
    build_tokenizer(file.path, file.metadata).save(str(folder / "tokenizer.json"))
    template = file.metadata.get("tokenizer.chat_template")
    if isinstance(template, str):
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    _write_weights(file, config, folder / "model.safetensors")


def _write_weights(file: GgufFile, config: dict[str, Any], path: Path) -> None:
    layout = layout_of(config)
    origins, member = tensor_origins(file, layout), layout.member

    def parts(name: str) -> Iterator[npt.NDArray[np.float32]]:
        rotated = member.interleaved and any(part in name for part in _ROTATED)
        for part in file.parts(origins[name], layout.head_dim if rotated else 1):
            if not np.isfinite(part).all():
                raise ModelFileError(file.path, f"damaged: {origins[name]} holds NaN or infinity")
            if rotated:
                shape = file.tensors[origins[name]].shape[1:]
                yield half_split(part.reshape(-1, *shape), layout.head_dim)
            else:
                # GGUF files hold a norm's gain itself, Hugging Face's what is added to an offset.
                yield part - np.float32(member.gain_offset) if is_norm(name) else part

    write_safetensors(path, {name: file.tensors[origins[name]].shape for name in origins}, parts)


def half_split(tensor: npt.NDArray[np.float32], head_dim: int) -> npt.NDArray[np.float32]:
    """Undo GGUF's interleaving of the rotated pairs of each head, along the first axis.

    GGUF files of architecture `llama` hold pair i of a head in rows 2i and 2i + 1; Hugging
    Face holds it in rows i and i + head_dim / 2.
    """
    pairs = tensor.reshape(-1, head_dim // 2, 2, *tensor.shape[1:])
    return pairs.swapaxes(1, 2).reshape(tensor.shape)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
