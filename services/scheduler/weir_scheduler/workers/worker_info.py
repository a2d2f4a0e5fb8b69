"""What a worker said about itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Registration of a worker; constant for its lifetime.

    Attributes:
        worker_id: unique per process start.
        address: host:port for gateways.
        model: public name; the worker serves nothing else.
        model_version: empty for any.
        profile: key of parameters: device, memory, dtype, engine, parallelism.
        max_context_tokens: prompt and output, tokens; 0 for no bound of its own.
        total_kv_blocks: size of the KV cache; 0 when it has no paged cache.
        block_size: tokens per KV block.
        max_concurrent_requests: bound of the worker itself; 0 for none.
        static_batching: it takes a new batch only when the last one has ended.
        dedicated_tenant_id: empty for any tenant.
        gpu_id: device, for records.
        tokenizer_fingerprint: 32 bytes; empty when unknown.
        batch_invariant: its self-test of batch-invariant output held.
        embeddings: it makes them.
        start_us: how long it took to come up; 0 when unknown.
    """

    worker_id: str
    address: str
    model: str
    model_version: str = ""
    profile: str = ""
    max_context_tokens: int = 0
    total_kv_blocks: int = 0
    block_size: int = 16
    max_concurrent_requests: int = 0
    static_batching: bool = False
    dedicated_tenant_id: str = ""
    gpu_id: str = ""
    tokenizer_fingerprint: bytes = b""
    batch_invariant: bool = False
    embeddings: bool = False
    start_us: int = 0

    def blocks_for(self, tokens: int) -> int:
        """KV blocks that hold so many tokens."""
        return -(-tokens // self.block_size)

    def serves(self, model: str, version: str) -> bool:
        """Whether it can run requests for a model and version (empty matches any)."""
        if model != self.model:
            return False
        return not version or not self.model_version or version == self.model_version
