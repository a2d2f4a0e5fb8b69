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
        hidden_size, intermediate_size, rms_norm_eps, rope_theta, rope_scaling,
        tie_word_embeddings, attention_bias, attention_out_bias, mlp_bias:
            see `LlamaModel`; 0, None or False for a model that has no such part.
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
    hidden_size: int = 0
    intermediate_size: int = 0
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    tie_word_embeddings: bool = False
    qkv_bias: bool = False
    kv_dtype_bytes: int = 4

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of K and V of one token over all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * self.kv_dtype_bytes
