"""The shape of a decoder-only transformer, as the engine and the KV manager need it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Sizes and special tokens of one model.

    Attributes:
        name: label for logs and model info.
        vocab_size: rows of the embedding and of the logits.
        max_context: most tokens (prompt and output) of one sequence.
        num_layers, num_heads, num_kv_heads, head_dim: attention shape; heads are a
            multiple of key-value heads.
        eos_token_ids: tokens of which each ends a sequence.
        bos_token_id: None when the model has none.
        kv_dtype_bytes: bytes of one cached element.
    """

    name: str
    vocab_size: int
    max_context: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None
    kv_dtype_bytes: int = 4

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of K and V of one token over all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * self.kv_dtype_bytes
