"""What an engine is started with."""

from typing import Literal

import msgspec

from weir_core.errors import InvalidField

NULL_MODEL = "null"
NULL_BLOCKS = 16_384
"""Of the null model where none are set, at most: 262,144 tokens in blocks of 16. Each costs about
150 bytes of bookkeeping."""
_KERNELS = ("auto", "off", "required")
_PRECISIONS = ("auto", "fp32", "int8")
_BLOCK_SIZES = "16, 32, 64, 128 or 256"
_DTYPES = ("auto", "bfloat16", "float16", "float32")
_NO_PIPELINE = (
    "1: pipeline parallel is not built; within a machine raise tensor_parallel_size, over "
    "several start more workers"
)


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of one engine process.

    Attributes:
        model: a model folder in Hugging Face form, or `null` for the model that computes
            nothing and serves to measure everything else.
        model_name: public name, by which prefixes are named too; empty: the folder's.
        block_size: tokens of a KV block.
        num_blocks: KV blocks; None: as many as `kv_memory_bytes` holds; of the null model, whose
            KV takes no memory, 16,384 at most.
        kv_memory_bytes: memory of the KV cache; no more is taken than `max_running`
            requests of `max_context` could use.
        kv_host_memory_bytes: memory of the host for KV of sessions that had to leave a GPU; 0:
            they are computed again.
        max_context: upper bound on the model's own context; None: the model's.
        max_step_tokens: rows of one forward pass.
        max_running: sequences that hold KV at once.
        max_prefill_chunk: most tokens of one prompt in one step; 0 for no bound of its own.
        watermark: part of the blocks left free when a sequence joins others.
        threads: compute threads; 0: torch's default.
        device: `auto`, `cpu` or a torch device such as `cuda:0`.
        dtype: of weights and KV cache on a GPU: `auto` (bfloat16), `bfloat16`, `float16` or
            `float32`; on CPU `auto` or `float32`.
        attention_backend: `auto`, or the name of one.
        precision: of linear layers on CPU: `auto` (8 bits where a record proves the quality),
            `fp32` or `int8`.
        kernels: compiled kernels on CPU: `auto` (where they can be had), `off` or `required`.
        cuda_graphs: replay decode steps as CUDA graphs, where the attention backend can.
        tensor_parallel_size: devices of this machine that share the model.
        pipeline_parallel_size: 1; more is not built.
        cache_ttl_s: age at which a cached KV block is given up; 0: none.
        max_step_context_tokens: tokens of context that the decodes of a step read; 0: 8,192 for
            each of `max_running`.
        max_step_ms: predicted time that prefill may stretch a step with decodes to; 0: 2.2 times
            that of the decodes alone when the last prompt joined them, and 50 ms in any case for
            prompts of at most `max_step_tokens`.
        device_memory_share: part of a GPU's memory that this process may use; 0: no bound.
        null_step_us: duration of a step of the null model.
        verify_kv_tokens: compare the tokens of every prefix hit (debugging).

    Raises:
        InvalidField: names the knob, the value and the bound.
    """

    model: str
    model_name: str = ""
    block_size: int = 16
    num_blocks: int | None = None
    kv_memory_bytes: int = 1 << 30
    kv_host_memory_bytes: int = 0
    max_context: int | None = None
    max_step_tokens: int = 512
    max_running: int = 64
    max_prefill_chunk: int = 0
    watermark: float = 0.01
    threads: int = 0
    device: str = "auto"
    dtype: str = "auto"
    attention_backend: str = "auto"
    precision: Literal["auto", "fp32", "int8"] = "auto"
    kernels: Literal["auto", "off", "required"] = "auto"
    cuda_graphs: bool = True
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    cache_ttl_s: float = 3600.0
    max_step_context_tokens: int = 0
    max_step_ms: float = 0.0
    device_memory_share: float = 0.0
    null_step_us: int = 0
    verify_kv_tokens: bool = False

    def __post_init__(self) -> None:
        if self.block_size not in (16, 32, 64, 128, 256):
            raise InvalidField("block_size", self.block_size, _BLOCK_SIZES)
        if self.num_blocks is not None and self.num_blocks < 1:
            raise InvalidField("num_blocks", self.num_blocks, "at least 1")
        if self.max_context is not None and self.max_context < 2:
            raise InvalidField("max_context", self.max_context, "at least 2")
        if not 0.0 <= self.watermark < 1.0:
            raise InvalidField("watermark", self.watermark, "from 0 to less than 1")
        if self.threads < 0:
            raise InvalidField("threads", self.threads, "0 (torch's default) or more")
        if self.dtype not in _DTYPES:
            raise InvalidField("dtype", self.dtype, "one of " + ", ".join(_DTYPES))
        if not 1 <= self.tensor_parallel_size <= 64:
            raise InvalidField("tensor_parallel_size", self.tensor_parallel_size, "from 1 to 64")
        if self.pipeline_parallel_size != 1:
            raise InvalidField("pipeline_parallel_size", self.pipeline_parallel_size, _NO_PIPELINE)
        if self.precision not in _PRECISIONS:
            raise InvalidField("precision", self.precision, "one of " + ", ".join(_PRECISIONS))
        if self.precision == "int8" and self.tensor_parallel_size > 1:
            bound = "auto or fp32: int8 is not built for a tensor_parallel_size above 1"
            raise InvalidField("precision", self.precision, bound)
        if self.kernels not in _KERNELS:
            raise InvalidField("kernels", self.kernels, "one of " + ", ".join(_KERNELS))
        if self.kernels == "required" and self.tensor_parallel_size > 1:
            bound = "auto or off: they are not built for a tensor_parallel_size above 1"
            raise InvalidField("kernels", self.kernels, bound)
        if not 0.0 <= self.device_memory_share <= 1.0:
            bound = "0 (no bound), or above 0 to 1"
            raise InvalidField("device_memory_share", self.device_memory_share, bound)
        if self.device_memory_share and self.tensor_parallel_size > 1:
            bound = "0 with tensor_parallel_size above 1: shares of several devices are not built"
            raise InvalidField("device_memory_share", self.device_memory_share, bound)
        if self.kv_host_memory_bytes < 0:
            raise InvalidField("kv_host_memory_bytes", self.kv_host_memory_bytes, "0 or more")
        if self.kv_host_memory_bytes and self.tensor_parallel_size > 1:
            bound = "0 with tensor_parallel_size above 1: KV of several devices stays there"
            raise InvalidField("kv_host_memory_bytes", self.kv_host_memory_bytes, bound)
        if self.cache_ttl_s < 0:
            raise InvalidField("cache_ttl_s", self.cache_ttl_s, "0 (no end) or more")
        if self.null_step_us < 0:
            raise InvalidField("null_step_us", self.null_step_us, "0 or more")

    def blocks(self, kv_bytes_per_token: int, max_context: int) -> int:
        """Return the number of KV blocks for a model.

        Raises:
            InvalidField: not even one block fits in `kv_memory_bytes`.
        """
        if self.num_blocks is not None:
            return self.num_blocks
        block_bytes = kv_bytes_per_token * self.block_size
        affordable = self.kv_memory_bytes // block_bytes
        if affordable < 1:
            bound = f"at least {block_bytes}, the size of one block of {self.block_size} tokens"
            raise InvalidField("kv_memory_bytes", self.kv_memory_bytes, bound)
        return min(affordable, self.max_running * -(-max_context // self.block_size))
