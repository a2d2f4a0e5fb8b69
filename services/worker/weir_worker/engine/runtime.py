"""What computes the steps, and what is known of it."""

from collections.abc import Callable
from dataclasses import dataclass

from weir_worker.engine.runner import StepRunner
from weir_worker.kv.cold_sessions import KvStore


def _nothing(num_blocks: int, block_size: int) -> None:
    """Allocate no memory."""


def _touch_nothing(first: int, count: int) -> None:
    """All memory is there."""


def _no_host(memory_bytes: int) -> None:
    """There is nothing to keep in the memory of the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """A runner with its description.

    Attributes:
        kv_bytes_per_token: memory of one token's KV.
        device, dtype, attention_backend: for people.
        kernels: instructions of the compiled kernels, or `off`; for people.
        batch_invariant: the self-test held that batch-mates and chunks change no bit.
        embeddings: the runner sums up hidden states.
        allocate: makes the KV cache, (blocks, tokens of a block); raises WeirError.
        touch: makes the memory of so many blocks from an index on, once the cache is there.
        host: makes a store for KV in the memory of the host, of so many bytes at most, once the
            cache is there; None where there is no use in one.
    """

    runner: StepRunner
    kv_bytes_per_token: int
    device: str
    dtype: str
    attention_backend: str
    batch_invariant: bool
    kernels: str = "off"
    embeddings: bool = False
    allocate: Callable[[int, int], None] = _nothing
    touch: Callable[[int, int], None] = _touch_nothing
    host: Callable[[int], KvStore | None] = _no_host
