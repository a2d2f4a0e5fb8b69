"""A model of which this process computes the first part and its children the others."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import torch
from torch import distributed

from weir_core.errors import InvalidField
from weir_core.model_folder import ModelFolder
from weir_worker.attention import AttentionName
from weir_worker.models.base import ForwardBatch
from weir_worker.models.llama import LlamaModel
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.loader import load_model
from weir_worker.parallel.messages import Allocate, Clear, Forward, Join, Load
from weir_worker.parallel.process_group import join, serve_store
from weir_worker.parallel.rank_group import RankGroup, end_engine
from weir_worker.parallel.ranks import Ranks
from weir_worker.parallel.shards import local_config

# Less than what a worker waits for a silent engine would be too little for a first step, in
# which kernels are compiled.
_STEP_TIMEOUT_S = 60.0
_LOAD_TIMEOUT_S = 280.0


class ParallelModel:
    """See `CausalModel`. The others compute the same steps, told before each begins."""

    def __init__(self, model: LlamaModel, group: RankGroup) -> None:
        self._model = model
        self._group = group

    @property
    def config(self) -> LlamaConfig:
        """Sizes of this rank's part: its KV bytes are those of one device."""
        return self._model.config

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and cache."""
        return self._model.dtype

    @property
    def attention_backend(self) -> str:
        """Name of the backend in use."""
        return self._model.attention_backend

    def allocate_kv(self, num_blocks: int, block_size: int) -> None:
        """See `CausalModel.allocate_kv`. Raises WeirError where a rank cannot."""
        self._group.tell(Allocate(num_blocks, block_size))
        self._model.allocate_kv(num_blocks, block_size)
        self._group.replies(_STEP_TIMEOUT_S)

    def clear_kv(self, blocks: Sequence[int]) -> None:
        """See `CausalModel.clear_kv`."""
        self._group.tell(Clear(list(blocks)))
        self._model.clear_kv(blocks)

    def forward(self, batch: ForwardBatch) -> torch.Tensor:
        """See `CausalModel.forward`; a step that fails is the end, for the others wait in it."""
        self._group.tell(Forward.of(batch))
        try:
            return self._model.forward(batch)
        except Exception as error:
            self._group.lost(f"a tensor parallel step failed ({type(error).__name__}: {error})")
            raise

    def pool(self, batch: ForwardBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """See `CausalModel.pool`: such a model says that it makes no embeddings."""
        raise RuntimeError("a model that ranks share makes no embeddings")

    def close(self) -> None:
        """End the other ranks and leave the process group."""
        self._group.close()
        if distributed.is_initialized():
            distributed.destroy_process_group()


def load_parallel_model(
    path: Path,
    size: int,
    *,
    device: torch.device,
    dtype: torch.dtype,
    attention: AttentionName,
    block_size: int,
    threads: int = 0,
    on_loss: Callable[[str], None] = end_engine,
) -> ParallelModel:
    """Load a part of the model in each of `size` processes, of which this is the first.

    Args:
        path, dtype, attention, block_size: as for `load_model`.
        size: ranks.
        device: of the first rank; the others take the GPUs that follow.
        threads: compute threads of each rank; 0: the cores, shared out.
        on_loss: called once, from any thread, when a rank is lost.

    Raises:
        InvalidField: the model cannot be divided so, or there are too few GPUs.
        WeirError: a rank could not load its part.
    """
    local_config(LlamaConfig.from_folder(ModelFolder(path)), Ranks(0, size))
    devices = _devices(device, size)
    threads = threads or max(1, (os.cpu_count() or 1) // size)
    load = Load(
        folder=str(path),
        rank=0,
        size=size,
        device=str(devices[0]),
        dtype=str(dtype).removeprefix("torch."),
        attention=attention,
        block_size=block_size,
        threads=threads,
    )
    group = RankGroup(size - 1, on_loss)
    try:
        return _start(group, load, devices)
    except BaseException:
        group.close()
        raise


def _start(group: RankGroup, load: Load, devices: list[torch.device]) -> ParallelModel:
    others = enumerate(devices[1:], start=1)
    group.send(
        [msgspec.structs.replace(load, rank=rank, device=str(device)) for rank, device in others]
    )
    torch.set_num_threads(load.threads)
    model = load_model(
        Path(load.folder),
        device=load.device,
        dtype=getattr(torch, load.dtype),
        attention=load.attention,  # type: ignore[arg-type]
        block_size=load.block_size,
        ranks=Ranks(0, load.size),
    )
    group.replies(_LOAD_TIMEOUT_S)
    store = serve_store(load.size, _STEP_TIMEOUT_S)
    group.tell(Join(store.port, _STEP_TIMEOUT_S))
    group.watch()
    join(0, load.size, devices[0], _STEP_TIMEOUT_S, store=store)
    return ParallelModel(model, group)


def _devices(first: torch.device, size: int) -> list[torch.device]:
    if first.type != "cuda":
        return [first] * size
    begin, there = first.index or 0, torch.cuda.device_count()
    if begin + size > there:
        bound = f"at most {there - begin}, the GPUs from {first} on"
        raise InvalidField("tensor_parallel_size", size, bound)
    return [torch.device("cuda", begin + rank) for rank in range(size)]
