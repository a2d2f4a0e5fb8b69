"""`make bench-gpu` where there is no GPU: nulls, and what a CPU can compute."""

import json
import subprocess
import sys

import pytest
import torch

from bench.gpu import speed
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


def test_speeds_are_shares_of_the_data_sheet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arithmetic, on a machine without a GPU: sizes and a data sheet made up."""
    small = {"_STREAMS": 2, "_CONTEXT": 40, "_PROMPT": 20, "_STEPS": 3, "_PROMPTS": 2, "_RUNS": 1}
    for name, value in small.items():
        monkeypatch.setattr(speed, name, value)
    monkeypatch.setattr(speed, "sheet", lambda _: (1e9, 1e9))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    monkeypatch.setattr(speed, "decode_seconds", lambda *_: 0.5)
    monkeypatch.setattr(speed, "prefill_seconds", lambda *_: 0.25)
    device = torch.device("cpu")
    model = load(TINY, "auto", torch.float32, device)
    figures = speed.speeds(model, TINY, device)
    weights = 2 * (64 * 16 * 2 * (4 + 2) + 3 * 64 * 128) + 64 * 320
    cached = 2 * 40 * model.config.kv_bytes_per_token
    assert figures["decode_bandwidth_share"] == round((4 * weights + cached) / 0.5 / 1e9, 3)
    flop = 2 * (2 * (weights - 64 * 320) * 20 + 4 * 2 * 4 * 16 * 210)
    assert figures["prefill_flop_share"] == round(flop / 0.25 / 1e9, 3)
    assert figures["decode_tok_s_64"] == 4.0
    assert figures["prefill_tok_s"] == 160.0


def test_what_is_timed_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"_STREAMS": 2, "_CONTEXT": 40, "_PROMPT": 20, "_STEPS": 3, "_PROMPTS": 2, "_RUNS": 1}
    for name, value in small.items():
        monkeypatch.setattr(speed, name, value)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    device = torch.device("cpu")
    model = load(TINY, "auto", torch.float32, device)
    model.allocate_kv(9, 16)
    assert speed.decode_seconds(model, 8, device) > 0
    assert speed.prefill_seconds(model, device) > 0
