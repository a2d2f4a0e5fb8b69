"""Settings of a worker process."""

from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from weir_core.config import ServiceSettings
from weir_core.rpc.framed import FramedOptions
from weir_worker.engine.config import NULL_MODEL, EngineConfig
from weir_worker.remote.dialect import DialectName
from weir_worker.remote.options import RemoteOptions


class WorkerSettings(ServiceSettings):
    """What a worker serves, with which means, and for whom."""

    model_config = SettingsConfigDict(env_prefix="WEIR_WORKER__")

    address: str = Field("127.0.0.1:8010", description="host:port of the gRPC server; port 0: any")
    advertised_address: str = Field(
        "", description="host:port under which gateways reach this worker; empty: the bound one"
    )
    scheduler_address: str = Field(
        "",
        description="host:port of the scheduler; several that share a leader store, separated by "
        "commas: the active one is used; empty: work without it, and without grants",
    )
    metrics_address: str = Field(
        "127.0.0.1:9010", description="host:port of /metrics and /healthz; empty: none"
    )
    vllm_metrics: bool = Field(
        False, description="tell /metrics once more under the names that vLLM uses"
    )
    worker_id: str = Field(
        "worker",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,95}$",
        description="stem of the worker's id; each start adds a suffix of its own",
    )
    model: str = Field(
        NULL_MODEL,
        min_length=1,
        description="model folder (safetensors, config.json, tokenizer.json), or `null` for the "
        "model that computes nothing",
    )
    upstream_url: str = Field(
        "",
        description="base URL, up to /v1, of an OpenAI-compatible engine (vLLM, SGLang, TGI, "
        "llama.cpp) that computes for this worker, or grpc://host:port of vLLM's gRPC server; "
        "empty: the worker's own engine",
    )
    upstream_model: str = Field("", description="the model's name at the upstream")
    upstream_dialect: DialectName = Field(
        "vllm", description="which fields an OpenAI-compatible upstream knows: see engines.md"
    )
    upstream_api_key: SecretStr | None = Field(None, description="bearer token of the upstream")
    upstream_embeddings: bool = Field(
        False, description="the upstream makes embeddings of the model, by POST /v1/embeddings"
    )
    upstream_batching: Literal["continuous", "static"] = Field(
        "continuous", description="how the upstream forms batches"
    )
    upstream_silence_s: float = Field(
        60, ge=0.1, description="an upstream that was silent for so long is given up"
    )
    upstream_check_s: float = Field(5, gt=0, description="seconds between looks at its health")
    model_name: str = Field("", max_length=128, description="public name; empty: the folder's")
    model_version: str = Field("", max_length=128, description="version of the weights")
    profile: str = Field(
        "",
        max_length=128,
        description="key of parameters for this kind of hardware; empty: made from device, "
        "cores or memory, dtype and engine",
    )
    gpu_id: str = Field("", max_length=128, description="name of the device; empty: found out")
    dedicated_tenant_id: str = Field("", max_length=128, description="empty: any tenant")
    max_concurrent_requests: int = Field(
        256, ge=1, le=65_536, description="attempts in this worker at once, waiting ones included"
    )
    block_size: int = Field(16, description="tokens of a KV block: 16, 32, 64, 128 or 256")
    num_blocks: int | None = Field(
        None,
        ge=1,
        description="KV blocks; none: by kv_memory_bytes; of the null model 16,384 at most, or "
        "what one request of its longest context needs",
    )
    kv_memory_bytes: int = Field(1 << 30, ge=1, description="memory of the KV cache")
    kv_host_memory_bytes: int = Field(
        0,
        ge=0,
        description="memory of the host, pinned at the start, for KV of sessions that had to "
        "leave a GPU's cache; 0: it is computed again",
    )
    max_context: int | None = Field(
        None, ge=2, description="most tokens of a request; none: the model's"
    )
    max_step_tokens: int = Field(512, ge=1, description="rows of one forward pass")
    max_running: int = Field(64, ge=1, description="sequences that hold KV at once")
    max_prefill_chunk: int = Field(
        0, ge=0, description="most tokens of one prompt in a step; 0: max_step_tokens"
    )
    max_step_context_tokens: int = Field(
        0,
        ge=0,
        description="tokens of context that the decodes of a step read, the rest wait a step; "
        "0: 8192 for each of max_running",
    )
    max_step_ms: float = Field(
        0,
        ge=0,
        description="predicted time that prefill may stretch a step with decodes to; 0: 2.2 times "
        "that of the decodes alone when the last prompt joined them, and 50 ms in any case for "
        "prompts of at most max_step_tokens",
    )
    cache_ttl_s: float = Field(
        3600, ge=0, description="age at which an unused cached KV block is given up; 0: none"
    )
    watermark: float = Field(0.01, ge=0, lt=1, description="part of the KV blocks left for growth")
    threads: int = Field(0, ge=0, description="compute threads; 0: torch's default")
    device: str = Field("auto", description="`auto`, `cpu` or a torch device such as `cuda:0`")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field(
        "auto", description="of weights and KV cache; auto: bfloat16 on a GPU, float32 on CPU"
    )
    device_memory_share: float = Field(
        0,
        ge=0,
        le=1,
        description="part of a GPU's memory that this worker may use, so that several share it; "
        "0: no bound",
    )
    attention_backend: str = Field("auto", description="`auto`, or the name of one")
    precision: Literal["auto", "fp32", "int8"] = Field(
        "auto",
        description="of linear layers on CPU: `auto` is int8 where a record proves the model's "
        "quality, else fp32; `fp32`; `int8`",
    )
    kernels: Literal["auto", "off", "required"] = Field(
        "auto",
        description="compiled kernels on CPU, made at the first start: `auto` where there is a "
        "compiler, else torch computes; `off`; `required`",
    )
    cuda_graphs: bool = Field(
        True, description="replay decode steps as CUDA graphs, where the attention backend can"
    )
    tensor_parallel_size: int = Field(
        1, ge=1, le=64, description="GPUs of this machine that share the model"
    )
    pipeline_parallel_size: int = Field(1, ge=1, description="1; more is not built")
    null_step_us: int = Field(0, ge=0, description="duration of a step of the null model")
    engine_start_timeout_s: float = Field(300, gt=0, description="bound on loading the model")
    engine_timeout_s: float = Field(
        15, gt=0, description="an engine that was silent for so long is frozen, and the worker ends"
    )
    record_keep_s: float = Field(
        600, gt=0, le=86_400, description="how long terminal records can be read"
    )
    stream_interval_ms: float = Field(
        15,
        ge=0,
        le=1_000,
        description="tokens leave for a gateway in frames at least so far apart, quicker steps "
        "together; first tokens and ends at once; 0: a frame a step",
    )
    heartbeat_s: float = Field(5, gt=0, description="ping of idle streams")
    silence_s: float = Field(15, gt=0, description="a peer that was silent for so long is lost")
    stall_s: float = Field(15, gt=0, description="a peer that read nothing for so long is lost")

    @model_validator(mode="after")
    def _check_streams(self) -> Self:
        self.stream_options()
        return self

    def stream_options(self) -> FramedOptions:
        """Bounds of the streams to gateways and to the scheduler."""
        # A message holds 512 tokens at most: 256 of them stay far below the message limit.
        return FramedOptions(
            max_frame_items=256,
            heartbeat_s=self.heartbeat_s,
            silence_s=self.silence_s,
            stall_s=self.stall_s,
        )

    def remote_options(self) -> RemoteOptions | None:
        """Where another engine computes; None: here. Raises InvalidField."""
        if not self.upstream_url:
            return None
        return RemoteOptions(
            url=self.upstream_url,
            model=self.upstream_model,
            dialect=self.upstream_dialect,
            api_key=self.upstream_api_key,
            embeddings=self.upstream_embeddings,
            silence_s=self.upstream_silence_s,
            check_s=self.upstream_check_s,
            max_running=self.max_running,
        )

    def engine_config(self) -> EngineConfig:
        """What the engine process is started with. Raises InvalidField."""
        return EngineConfig(
            model=self.model,
            model_name=self.model_name,
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            kv_memory_bytes=self.kv_memory_bytes,
            kv_host_memory_bytes=self.kv_host_memory_bytes,
            max_context=self.max_context,
            max_step_tokens=self.max_step_tokens,
            max_running=self.max_running,
            max_prefill_chunk=self.max_prefill_chunk,
            watermark=self.watermark,
            threads=self.threads,
            device=self.device,
            dtype=self.dtype,
            attention_backend=self.attention_backend,
            precision=self.precision,
            kernels=self.kernels,
            cuda_graphs=self.cuda_graphs,
            tensor_parallel_size=self.tensor_parallel_size,
            pipeline_parallel_size=self.pipeline_parallel_size,
            cache_ttl_s=self.cache_ttl_s,
            max_step_context_tokens=self.max_step_context_tokens,
            max_step_ms=self.max_step_ms,
            device_memory_share=self.device_memory_share,
            null_step_us=self.null_step_us,
        )
