"""What can be told of a model folder at a glance, without torch and without its weights."""

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from weir_core.model_folder import ModelFileError, ModelFolder


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """One line of a list of models.

    Attributes:
        name: of the folder.
        path: the folder.
        architecture: `model_type`; empty when it cannot be read.
        parameters: numbers in its tensors.
        disk_bytes: of all its files.
        dtype: as most tensors are stored, such as `F32`.
        context: most tokens of a sequence.
        problem: why it cannot be read; empty when it can.
    """

    name: str
    path: Path
    architecture: str = ""
    parameters: int = 0
    disk_bytes: int = 0
    dtype: str = ""
    context: int = 0
    problem: str = ""


def summarize(path: Path) -> ModelSummary:
    """Look at a folder; what is wrong with it is told in the result."""
    size = sum(entry.stat().st_size for entry in path.rglob("*") if entry.is_file())
    try:
        folder = ModelFolder(path)
        parameters, kinds = _tensors(path)
        return ModelSummary(
            path.name,
            path,
            folder.architecture,
            parameters,
            size,
            kinds.most_common(1)[0][0] if kinds else "",
            folder.max_context,
        )
    except ModelFileError as error:
        return ModelSummary(path.name, path, disk_bytes=size, problem=error.message)


def models_in(home: Path) -> list[ModelSummary]:
    """The models of a cache, by name; hidden folders are unfinished ones."""
    if not home.is_dir():
        return []
    folders = [entry for entry in sorted(home.iterdir()) if entry.is_dir()]
    return [summarize(folder) for folder in folders if not folder.name.startswith(".")]


def _tensors(folder: Path) -> tuple[int, Counter[str]]:
    parameters, kinds = 0, Counter[str]()
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="np") as file:
                for name in file.keys():  # noqa: SIM118
                    part = file.get_slice(name)
                    count = math.prod(part.get_shape())
                    parameters += count
                    kinds[str(part.get_dtype())] += count
        except (OSError, SafetensorError) as error:
            raise ModelFileError(path, f"cannot be read: {' '.join(str(error).split())}") from error
    return parameters, kinds
