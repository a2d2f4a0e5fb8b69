"""Starts a remote engine: a task of the server process, since it computes nothing itself."""

import asyncio
import os
import socket
from pathlib import Path

from tokenizers import Tokenizer

from weir_core.clock import Clock
from weir_core.model_folder import ModelFolder
from weir_worker.engine.config import EngineConfig
from weir_worker.engine.events import Ready
from weir_worker.remote.engine import RemoteEngine
from weir_worker.remote.openai import OpenAiUpstream
from weir_worker.remote.options import RemoteOptions
from weir_worker.remote.upstream import Upstream
from weir_worker.text import detokenizer_factory

DEVICE = "remote"


class RemoteLauncher:
    """See `EngineLauncher`.

    Args:
        options: where the upstream is.
        config: the model folder (for tokenizer and limits; no weights are read), names and
            bounds.
        clock: time.
    """

    def __init__(self, options: RemoteOptions, config: EngineConfig, clock: Clock) -> None:
        self._options = options
        self._config = config
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    async def launch(self) -> socket.socket:
        """See `EngineLauncher.launch`. Raises WeirError if the model folder is not sound."""
        folder = ModelFolder(Path(self._config.model))
        tokenizer = await asyncio.to_thread(folder.load_tokenizer)
        engine = RemoteEngine(
            _upstream(self._options, tokenizer),
            self._options,
            _ready(self._options, self._config, folder),
            lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
            self._clock,
        )
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=theirs)
        self._task = asyncio.create_task(engine.run(reader, writer), name="remote-engine")
        return ours

    async def wait(self, timeout_s: float) -> str:
        """See `EngineLauncher.wait`."""
        if self._task is None:
            return "never started"
        done, _ = await asyncio.wait({self._task}, timeout=timeout_s)
        if not done:
            raise TimeoutError
        return "the connection to the upstream engine ended"

    def kill(self) -> None:
        """See `EngineLauncher.kill`."""
        if self._task is not None:
            self._task.cancel()


def _upstream(options: RemoteOptions, tokenizer: Tokenizer) -> Upstream:
    if options.scheme == "grpc":
        # Its contract is an extra that most installations go without.
        from weir_worker.remote.vllm_grpc import VllmUpstream

        return VllmUpstream(options, detokenizer_factory(tokenizer))
    return OpenAiUpstream(
        options, lambda ids: str(tokenizer.decode(ids, skip_special_tokens=False))
    )


def _ready(options: RemoteOptions, config: EngineConfig, folder: ModelFolder) -> Ready:
    max_context = min(folder.max_context, config.max_context or folder.max_context)
    blocks_each = -(-max_context // config.block_size)
    return Ready(
        model=config.model_name or folder.path.name,
        vocab_size=folder.vocab_size,
        max_context=max_context,
        block_size=config.block_size,
        # Its KV is its own affair: here nothing is refused for lack of blocks.
        num_blocks=config.num_blocks or options.max_running * blocks_each,
        kv_bytes_per_token=0,
        max_step_tokens=config.max_step_tokens,
        max_running=options.max_running,
        eos_token_ids=list(folder.eos_token_ids),
        tokenizer_fingerprint=bytes.fromhex(folder.tokenizer_fingerprint),
        attention_backend=DEVICE,
        dtype="unknown",
        device=DEVICE,
        batch_invariant=False,
        kernels="off",
        pid=os.getpid(),
        embeddings=options.embeddings,
    )
