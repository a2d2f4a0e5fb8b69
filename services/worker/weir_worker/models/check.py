"""Whether a folder can be served, found out without reading its weights."""

from dataclasses import dataclass
from pathlib import Path

import torch

from weir_core.model_folder import ModelFolder
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.weights import Weights


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """A folder whose files agree with each other.

    Attributes:
        folder: its files.
        config: what they say.
        shapes: of every tensor, by name.
        dtypes: of the stored tensors, the commonest first.
    """

    folder: ModelFolder
    config: LlamaConfig
    shapes: dict[str, tuple[int, ...]]
    dtypes: list[str]


def check_model(path: Path) -> CheckedModel:
    """Read everything but the numbers: configuration, tokenizer, template, headers of weights.

    Raises:
        ModelFileError: what a worker would refuse to start with, except NaN in the weights.
    """
    folder = ModelFolder(path)
    config = LlamaConfig.from_folder(folder)
    weights = Weights(path, config.layout, torch.float32, torch.device("cpu"))
    folder.load_tokenizer()
    folder.check_template()
    kinds = list(weights.kinds.values())
    ordered = sorted(set(kinds), key=kinds.count, reverse=True)
    return CheckedModel(folder, config, weights.shapes, ordered)
