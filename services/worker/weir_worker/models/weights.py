"""The tensors of a safetensors folder, each taken once and checked for shape."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from weir_core.model_folder import ModelFileError
from weir_worker.linear import Linear
from weir_worker.models.llama_layout import LlamaLayout
from weir_worker.models.parts import Gate, Parts
from weir_worker.parallel.ranks import ALONE, Ranks
from weir_worker.parallel.shards import cut, fitted

_EMBEDDING, _HEAD = "model.embed_tokens.weight", "lm_head.weight"
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_KINDS = ("F32", "F16", "BF16")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


class Weights:
    """Tensors by Hugging Face name, read lazily from one file or from shards.

    On CPU an fp32 tensor is a view of the mapped file until it is changed or packed. Names,
    shapes and types are checked at once, before anything is read or allocated.

    Attributes:
        shapes: of every tensor, by name.
        kinds: `F32`, `F16` or `BF16`, as stored.
        int8: the linear layers are of 8 bits.
    """

    int8 = False

    def __init__(
        self,
        folder: Path,
        layout: LlamaLayout,
        dtype: torch.dtype,
        device: torch.device,
        ranks: Ranks = ALONE,
    ) -> None:
        """Open the files.

        Args:
            folder: holds model.safetensors, or shards and their index.
            layout: which tensors there must be, of which shapes.
            dtype: of the tensors handed out.
            device: likewise.
            ranks: of each tensor only this rank's part is read.

        Raises:
            ModelFileError: a file is missing or damaged, or its tensors are not the model's.
        """
        self._folder = folder
        self._layout = layout
        self._dtype = dtype
        self._device = device
        self._ranks = ranks
        self._files: dict[str, Any] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.kinds: dict[str, str] = {}
        for path in _paths(folder):
            self._open(path)
        missing = [name for name in layout.required() if name not in self._files]
        if missing:
            raise ModelFileError(folder, f"tensor {missing[0]} is missing")

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def take(self, name: str) -> torch.Tensor:
        """The tensor of that name.

        Raises:
            ModelFileError: there is none, or it holds NaN or infinity.
        """
        if name not in self._files:
            raise ModelFileError(self._folder, f"tensor {name} is missing")
        tensor = self._read(name)
        if not bool(tensor.sum(dtype=torch.float32).isfinite()):
            raise ModelFileError(self._folder, f"tensor {name} ({tensor.dtype}) is not finite")
        return tensor.to(self._device, self._dtype)

    def embedding(self) -> torch.Tensor:
        """The embedding, [vocab_size, hidden_size].

        A copy: a view would keep the whole file in memory for as long as the model lives.
        """
        return self.take(_EMBEDDING).clone()

    def weight(self, names: list[str]) -> torch.Tensor:
        """The weights of projections, one below the other."""
        return torch.cat([self.take(f"{name}.weight") for name in names])

    def bias(self, names: list[str]) -> torch.Tensor | None:
        """Their biases; None if they have none."""
        if f"{names[0]}.bias" not in self:
            return None
        return torch.cat([self.take(f"{name}.bias") for name in names])

    def linear(self, parts: Parts, names: list[str]) -> Linear:
        """One layer for projections of the same input, such as `model.layers.0.mlp.up_proj`."""
        return parts.linear(self.weight(names), self.bias(names))

    def gate(self, parts: Parts) -> Gate:
        """What stands between `gate_up` and `down_proj`, for SiLU."""
        return parts.gate()

    def head(self, parts: Parts, *, tied: bool) -> Linear:
        """The projection to logits; `tied`: by the embedding."""
        return parts.head(self.take(self._head_name(tied)))

    def hidden(self) -> Callable[[torch.Tensor], torch.Tensor]:
        """Brings what enters that projection into the model's own coordinates."""
        return lambda states: states

    def _head_name(self, tied: bool) -> str:
        return _EMBEDDING if tied or _HEAD not in self else _HEAD

    def _read(self, name: str) -> torch.Tensor:
        file, shape = self._files[name], self.shapes[name]
        if self._ranks.size == 1:
            whole: torch.Tensor = file.get_tensor(name)
            return whole
        part = file.get_slice(name)[cut(name, shape, self._ranks)]
        return fitted(name, part, shape[0], self._ranks)

    def _open(self, path: Path) -> None:
        try:
            file = safe_open(path, framework="pt")
            names = list(file.keys())  # type: ignore[no-untyped-call]
            shapes = {name: _shape(file, name) for name in names}
        except (OSError, SafetensorError) as error:
            raise ModelFileError(path, f"cannot be read: {' '.join(str(error).split())}") from error
        for name, (shape, kind) in shapes.items():
            if name.endswith("rotary_emb.inv_freq"):
                continue  # old checkpoints store what follows from the config
            self._check(path, name, shape, kind)
            self._files[name] = file
            self.shapes[name], self.kinds[name] = shape, kind

    def _check(self, path: Path, name: str, shape: tuple[int, ...], kind: str) -> None:
        expected = self._layout.shape(name)
        if expected is None:
            raise ModelFileError(path, f"tensor {name:.120} belongs to no supported model")
        if shape != expected:
            raise ModelFileError(
                path,
                f"tensor {name} has shape {list(shape)}; config.json demands {list(expected)}",
            )
        if kind not in _KINDS:
            raise ModelFileError(
                path, f"tensor {name} is of type {kind}; read are {', '.join(_KINDS)}"
            )
        if name in self._files:
            raise ModelFileError(path, f"tensor {name} is in another shard too")


def _shape(file: Any, name: str) -> tuple[tuple[int, ...], str]:
    part = file.get_slice(name)
    return tuple(part.get_shape()), str(part.get_dtype())


def _paths(folder: Path) -> list[Path]:
    index = folder / _INDEX
    if not index.is_file():
        return [_single(folder)]
    try:
        weight_map = json.loads(index.read_bytes())["weight_map"]
        names = sorted({str(name) for name in weight_map.values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelFileError(index, f"not an index of shards: {error!r:.200}") from error
    for name in names:
        if Path(name).name != name or Path(name).suffix != ".safetensors":
            problem = f"shard {name!r:.80} lies outside the folder or is no safetensors file"
            raise ModelFileError(index, problem)
    return [folder / name for name in names]


def _single(folder: Path) -> Path:
    """The only file. Weights in pickles are code that would run here; they are never opened."""
    path = folder / _SINGLE
    pickles = [found.name for pattern in _PICKLES for found in sorted(folder.glob(pattern))]
    if pickles and not path.is_file():
        raise ModelFileError(
            folder / pickles[0],
            "weights in a pickle can run any code, and are not read; convert them to "
            f"{_SINGLE} where they come from",
        )
    return path
