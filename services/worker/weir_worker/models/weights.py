"""The tensors of a safetensors folder, each taken once and checked for shape."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from weir_core.model_folder import ModelFileError

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"


class Weights:
    """Tensors by Hugging Face name, read lazily from one file or from shards.

    On CPU an fp32 tensor is a view of the mapped file until it is changed or packed.
    """

    def __init__(
        self,
        folder: Path,
        shape: Callable[[str], tuple[int, ...] | None],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Open the files.

        Args:
            folder: holds model.safetensors, or shards and their index.
            shape: the expected shape of a name, None if the model has no such tensor.
            dtype: of the tensors handed out.
            device: likewise.

        Raises:
            ModelFileError: a file is missing, damaged, or holds a tensor of no such model.
        """
        self._folder = folder
        self._shape = shape
        self._dtype = dtype
        self._device = device
        self._files: dict[str, Any] = {}
        for path in _paths(folder):
            self._open(path)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def take(self, name: str) -> torch.Tensor:
        """The tensor of that name.

        Raises:
            ModelFileError: there is none, its shape is another, or it holds NaN or infinity.
        """
        if name not in self._files:
            raise ModelFileError(self._folder, f"tensor {name} is missing")
        tensor: torch.Tensor = self._files[name].get_tensor(name)
        expected = self._shape(name)
        if tuple(tensor.shape) != expected:
            raise ModelFileError(
                self._folder,
                f"tensor {name} has shape {list(tensor.shape)}; config.json demands "
                f"{list(expected or ())}",
            )
        if not tensor.is_floating_point() or not bool(tensor.sum().isfinite()):
            raise ModelFileError(self._folder, f"tensor {name} ({tensor.dtype}) is not finite")
        return tensor.to(self._device, self._dtype)

    def optional(self, name: str) -> torch.Tensor | None:
        """The tensor of that name; None if the model has none."""
        return self.take(name) if name in self else None

    def joined(self, names: list[str]) -> torch.Tensor:
        """Tensors one below the other."""
        return torch.cat([self.take(name) for name in names])

    def _open(self, path: Path) -> None:
        try:
            file = safe_open(path, framework="pt")
            names = list(file.keys())  # type: ignore[no-untyped-call]
        except (OSError, SafetensorError) as error:
            raise ModelFileError(path, f"cannot be read: {error}") from error
        for name in names:
            if name.endswith("rotary_emb.inv_freq"):
                continue  # old checkpoints store what follows from the config
            if self._shape(name) is None:
                raise ModelFileError(path, f"tensor {name} belongs to no supported model")
            self._files[name] = file


def _paths(folder: Path) -> list[Path]:
    if not (folder / _INDEX).is_file():
        return [folder / _SINGLE]
    try:
        index = json.loads((folder / _INDEX).read_bytes())
        names = sorted({str(name) for name in index["weight_map"].values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(folder / _INDEX, f"not an index of shards: {error}") from error
    if any(Path(name).name != name for name in names):
        raise ModelFileError(folder / _INDEX, "a shard lies outside the folder")
    return [folder / name for name in names]
