"""`make bench-gpu`: what the engine makes of a GPU (figures: bench/README.md).

Prints progress and, as its last line, one JSON object. Needs torch alone. Without a GPU every
figure is null but the errors of what runs on a CPU.
"""

import json
import traceback
from collections.abc import Callable
from typing import Any

import torch

from bench.gpu.batching import ratio_transformers_cb
from bench.gpu.errors import load, max_logit_errors
from bench.gpu.shape import LLAMA_8B, SHALLOW, TINY
from bench.gpu.speed import speeds
from weir_worker.attention import AttentionName

_SPEEDS = ("decode_bandwidth_share", "prefill_flop_share", "decode_tok_s_64", "prefill_tok_s")
_HALF, _FULL = torch.bfloat16, torch.float32
_ON_CUDA: list[tuple[AttentionName, torch.dtype]] = [
    ("triton", _HALF),
    ("triton", _FULL),
    ("varlen", _HALF),
    ("flash", _HALF),
    ("gather_sdpa", _HALF),
]
_ON_CPU: list[tuple[AttentionName, torch.dtype]] = [
    ("tiled", _FULL),
    ("triton", _HALF),
    ("varlen", _HALF),
    ("flash", _HALF),
]


def main() -> None:
    """Measures all there is to measure here; a part that fails leaves its figures null."""
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda:0" if on_gpu else "cpu")
    figures: dict[str, Any] = {
        "device": torch.cuda.get_device_name(device) if on_gpu else None,
        "torch": torch.__version__,
        "max_logit_error": None,
        "ratio_transformers_cb": None,
        **dict.fromkeys(_SPEEDS),
    }
    shape, backends = (SHALLOW, _ON_CUDA) if on_gpu else (TINY, _ON_CPU)
    with torch.inference_mode():
        figures["max_logit_error"] = _tried(lambda: max_logit_errors(shape, device, backends))
        if on_gpu:
            _measure(figures, device)
    print(json.dumps(figures))


def _measure(figures: dict[str, Any], device: torch.device) -> None:
    model = _tried(lambda: load(LLAMA_8B, "auto", _HALF, device))
    if model is None:
        return
    figures["attention_backend"] = model.attention_backend
    figures.update(_tried(lambda: speeds(model, LLAMA_8B, device)) or {})
    print(json.dumps(figures), flush=True)
    figures["ratio_transformers_cb"] = _tried(
        lambda: ratio_transformers_cb(model, LLAMA_8B, device)
    )


def _tried(measure: Callable[[], Any]) -> Any:
    try:
        return measure()
    except Exception:  # one part must not cost the figures of the others
        print(traceback.format_exc(), flush=True)
        return None


if __name__ == "__main__":
    main()
