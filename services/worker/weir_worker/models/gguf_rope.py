"""How a GGUF file says that rotary frequencies are scaled, in the form of `rope_scaling`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from weir_core.model_folder import ModelFileError
from weir_worker.models.gguf_file import GgufFile

ROPE_DIVISORS = "rope_freqs.weight"
_LLAMA3 = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def rope_scaling(file: GgufFile, arch: str, theta: float) -> dict[str, Any] | None:
    """`rope_scaling` of config.json; None when nothing is scaled.

    Llama 3.1 and later keep divisors of the frequencies instead of the rule behind them. The
    rule has one free number, the largest divisor; it is applied and compared.

    Raises:
        ModelFileError: the frequencies are scaled in a way that is not built.
    """
    kind = file.metadata.get(f"{arch}.rope.scaling.type", "none")
    factor = file.metadata.get(f"{arch}.rope.scaling.factor", 0.0)
    if kind == "linear" and isinstance(factor, float) and factor >= 1:
        return {"rope_type": "linear", "factor": factor}
    if kind != "none":
        raise ModelFileError(
            file.path, f"rotary frequencies scaled by {kind!r} with factor {factor!r}: not built"
        )
    if ROPE_DIVISORS not in file.tensors:
        return None
    divisors = file.tensor(ROPE_DIVISORS)
    if not np.allclose(divisors, _llama3_divisors(divisors, theta), rtol=1e-3):
        raise ModelFileError(file.path, f"{ROPE_DIVISORS} does not follow the rule of Llama 3.1")
    return {**_LLAMA3, "factor": float(divisors.max())}


def _llama3_divisors(given: npt.NDArray[np.float32], theta: float) -> npt.NDArray[np.float64]:
    waves = theta ** -(np.arange(given.size) / given.size)
    turns = 8192 * waves / (2 * np.pi)
    share = np.clip((turns - 1.0) / (4.0 - 1.0), 0, 1)
    divisors: npt.NDArray[np.float64] = 1 / ((1 - share) / float(given.max()) + share)
    return divisors
