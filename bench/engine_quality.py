"""How far int8 and the peers are from exact fp32, on the texts of `bench/texts`.

Mean Kullback-Leibler divergence of the next token's distribution over a text's rows, in nats,
and the part of its rows whose likeliest token is the same; of the worst text. The reference is
our fp32 model, which the tests hold against transformers.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from bench.divergence import Logits, divergence
from bench.engine_modes import INT8, KERNELS
from bench.int8_quality import TEXTS, int8_quality
from bench.int8_quality import figures as int8_figures
from bench.peers.peer_process import RUNNERS, PeerFailed, Runner, open_peer
from bench.samples import Budget, Samples, say
from weir_core.errors import WeirError
from weir_core.model_folder import ModelFolder
from weir_worker.kernels.choice import KernelsMode
from weir_worker.models.base import ForwardBatch, SequenceSlice
from weir_worker.models.int8_check import TOKENS, read_texts
from weir_worker.models.loader import load_model

_BLOCK = 16
_LOAD_S = 240.0


async def measure_quality(
    model: str, peers: Sequence[str], samples: Samples, budget: Budget
) -> None:
    """`kl/NAME` and `top1/NAME` of our int8 and of each peer that gives logits."""
    await _measure_int8(Path(model), INT8, "off", samples)
    await _measure_int8(Path(model), KERNELS, "required", samples)
    texts = await asyncio.to_thread(_token_ids, Path(model))
    reference = await asyncio.to_thread(_fp32_logits, Path(model), texts)
    for runner in RUNNERS:
        if runner.name in peers:
            try:
                await _measure_peer(runner, texts, reference, samples, budget)
            except PeerFailed as error:
                say(f"quality: {error}")


def quality_figures(samples: Samples, peers: Sequence[str]) -> dict[str, Any]:
    """Null where one was not measured."""
    return {
        "int8_kl": samples.median("kl/int8", 5),
        "int8_top1": samples.median("top1/int8", 4),
        "int8_kl_kernels": samples.median("kl/int8_kernels", 5),
        "int8_top1_kernels": samples.median("top1/int8_kernels", 4),
        "peers": {
            name: {
                "kl": samples.median(f"kl/{name}", 5),
                "top1": samples.median(f"top1/{name}", 4),
            }
            for name in peers
        },
    }


async def _measure_int8(model: Path, mode: str, kernels: KernelsMode, samples: Samples) -> None:
    try:
        told = int8_figures(await asyncio.to_thread(int8_quality, model, kernels))
    except WeirError as error:
        say(f"quality: {mode}: {error.message}")
        return
    samples.add(f"kl/{mode}", told["int8_kl"])
    samples.add(f"top1/{mode}", told["int8_top1"])
    say(f"quality: {mode}: KL {told['int8_kl']}, the same likeliest token {told['int8_top1']}")


async def _measure_peer(
    runner: Runner,
    texts: list[list[int]],
    reference: list[Logits],
    samples: Samples,
    budget: Budget,
) -> None:
    found = []
    with TemporaryDirectory(prefix="weir-bench-") as folder:
        async with open_peer(runner, _LOAD_S) as peer:
            for place, token_ids in enumerate(texts):
                file = Path(folder, f"{place}.npy")
                if not await peer.logits(token_ids, file, budget.left + _LOAD_S):
                    say(f"quality: {runner.name} gives no logits")
                    return
                found.append(np.load(file))
    _add(samples, runner.name, reference, found)


def _add(samples: Samples, name: str, reference: list[Logits], found: list[Logits]) -> None:
    told = [divergence(*pair) for pair in zip(reference, found, strict=True)]
    samples.add(f"kl/{name}", max(float(kl.mean()) for kl, _ in told))
    samples.add(f"top1/{name}", min(float(same.mean()) for _, same in told))
    say(f"quality: {name}: KL {samples.median(f'kl/{name}', 5)}")


def _token_ids(folder: Path) -> list[list[int]]:
    tokenizer = ModelFolder(folder).load_tokenizer()
    return [
        tokenizer.encode(text, add_special_tokens=False).ids[:TOKENS]
        for text in read_texts(TEXTS).values()
    ]


def _fp32_logits(folder: Path, texts: list[list[int]]) -> list[Logits]:
    model = load_model(folder, device="cpu")
    blocks = list(range(-(-TOKENS // _BLOCK)))
    model.allocate_kv(len(blocks), _BLOCK)
    found = []
    with torch.inference_mode():
        for token_ids in texts:
            rows = range(len(token_ids))
            batch = ForwardBatch(token_ids, [SequenceSlice(0, len(token_ids), blocks)], rows)
            found.append(model.forward(batch).float().numpy().copy())
    return found
