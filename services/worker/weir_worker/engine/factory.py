"""Builds an engine from its configuration."""

import os
from pathlib import Path

from weir_core.clock import SystemClock
from weir_core.errors import InvalidField
from weir_core.model_folder import ModelFolder, models_home
from weir_worker.engine.config import NULL_BLOCKS, NULL_MODEL, EngineConfig
from weir_worker.engine.engine import Engine
from weir_worker.engine.events import Ready
from weir_worker.engine.intake import ServedModel
from weir_worker.engine.limits import StepLimits
from weir_worker.engine.memory_ahead import MemoryAhead
from weir_worker.engine.null_folder import ensure_null_model
from weir_worker.engine.null_model import KV_BYTES_PER_TOKEN, MODEL_TYPE, NullRunner
from weir_worker.engine.runtime import Runtime
from weir_worker.engine.serve import StartedEngine
from weir_worker.grammars.compilations import Compile
from weir_worker.kernels.choice import start_build
from weir_worker.kv import KvManager
from weir_worker.text import detokenizer_factory


def build_engine(config: EngineConfig) -> StartedEngine:
    """Load the model, allocate the cache and make the engine.

    Raises:
        WeirError: what is wrong, with the knob to turn.
    """
    folder = _model_folder(config)
    max_context = min(folder.max_context, config.max_context or folder.max_context)
    runtime = _runtime(config, folder)
    num_blocks = config.blocks(runtime.kv_bytes_per_token, max_context)
    if config.num_blocks is None and folder.architecture == MODEL_TYPE:
        # At least one request of the longest context, as of any model.
        num_blocks = min(num_blocks, max(NULL_BLOCKS, -(-max_context // config.block_size)))
    limits = StepLimits(
        max_step_tokens=config.max_step_tokens,
        max_running=config.max_running,
        max_prefill_chunk=config.max_prefill_chunk,
        watermark_blocks=int(num_blocks * config.watermark),
        max_step_context_tokens=config.max_step_context_tokens,
        max_step_us=round(config.max_step_ms * 1000),
    )
    runtime.allocate(num_blocks, config.block_size)
    model = ServedModel(
        name=config.model_name or folder.path.name,
        vocab_size=folder.vocab_size,
        max_context=max_context,
        eos_token_ids=folder.eos_token_ids,
        tokenizer_fingerprint=bytes.fromhex(folder.tokenizer_fingerprint),
    )
    kv = KvManager(
        num_blocks,
        config.block_size,
        cache_ttl_us=round(config.cache_ttl_s * 1e6),
        verify_tokens=config.verify_kv_tokens,
        host=runtime.host(config.kv_host_memory_bytes),
    )
    engine = Engine(
        model,
        runtime.runner,
        kv,
        detokenizer_factory(folder.load_tokenizer()),
        limits,
        SystemClock(),
        _grammar_compiler(folder),
        MemoryAhead(kv.pool, runtime.touch),
    )
    return StartedEngine(engine, _ready(config, model, runtime, num_blocks))


def _model_folder(config: EngineConfig) -> ModelFolder:
    if config.model == NULL_MODEL:
        return ModelFolder(ensure_null_model(models_home() / NULL_MODEL))
    path = Path(config.model)
    if not path.is_dir():
        raise InvalidField("model", config.model, f"a model folder that exists, or {NULL_MODEL!r}")
    return ModelFolder(path)


def _grammar_compiler(folder: ModelFolder) -> Compile | None:
    """None for the null model, whose tokens nothing can choose."""
    if folder.architecture == MODEL_TYPE:
        return None
    from weir_worker.grammars.compiler import GrammarCompiler

    compiler = GrammarCompiler(folder.tokenizer_path, folder.vocab_size, folder.eos_token_ids)
    return compiler.compile


def _runtime(config: EngineConfig, folder: ModelFolder) -> Runtime:
    if folder.architecture == MODEL_TYPE:
        return Runtime(
            runner=NullRunner(config.null_step_us),
            kv_bytes_per_token=KV_BYTES_PER_TOKEN,
            device="cpu",
            dtype="none",
            attention_backend="none",
            batch_invariant=True,
            embeddings=True,
        )
    built = start_build(config.kernels) if config.device in ("auto", "cpu") else None
    # Torch takes seconds to import, and the null model does without it.
    from weir_worker.engine.torch_runtime import torch_runtime

    return torch_runtime(config, folder, built)


def _ready(config: EngineConfig, model: ServedModel, runtime: Runtime, num_blocks: int) -> Ready:
    return Ready(
        model=model.name,
        vocab_size=model.vocab_size,
        max_context=model.max_context,
        block_size=config.block_size,
        num_blocks=num_blocks,
        kv_bytes_per_token=runtime.kv_bytes_per_token,
        max_step_tokens=config.max_step_tokens,
        max_running=config.max_running,
        eos_token_ids=list(model.eos_token_ids),
        tokenizer_fingerprint=model.tokenizer_fingerprint,
        attention_backend=runtime.attention_backend,
        dtype=runtime.dtype,
        device=runtime.device,
        batch_invariant=runtime.batch_invariant,
        kernels=runtime.kernels,
        pid=os.getpid(),
        embeddings=runtime.embeddings,
    )
