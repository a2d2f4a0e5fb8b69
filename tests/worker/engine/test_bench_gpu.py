"""`make bench-gpu` where there is no GPU: nulls, and what a CPU can compute."""

import json
import subprocess
import sys

import pytest
import torch

from bench.gpu.batching import engine_seconds
from bench.gpu.errors import load
from bench.gpu.shape import LLAMA_8B, TINY


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_last_line_is_json_with_nulls() -> None:
    command = [sys.executable, "-m", "bench.gpu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    errors = figures.pop("max_logit_error")
    assert 0 <= errors.pop("tiled_fp32") < 1e-4
    assert errors == {"triton": None, "varlen": None, "flash": None}
    assert figures.pop("torch") == torch.__version__
    assert set(figures.values()) == {None}
    assert {"decode_bandwidth_share", "prefill_flop_share", "ratio_transformers_cb"} <= set(figures)


def test_our_side_of_the_comparison_runs() -> None:
    device = torch.device("cpu")
    model = load(TINY, "auto", torch.float32, device)
    assert engine_seconds(model, [[5] * 20, [6] * 17], device, output=3) > 0


def test_parameters_are_those_of_llama_8b() -> None:
    embedding = LLAMA_8B.hidden * LLAMA_8B.vocabulary
    assert round((LLAMA_8B.parameters + embedding) / 1e9, 2) == 8.03
