"""Reads config.json of the Llama family."""

from dataclasses import dataclass

from weir_core.model_folder import ModelFileError, ModelFolder
from weir_worker.models.config import ModelConfig
from weir_worker.models.llama_layout import LlamaLayout
from weir_worker.models.rope import RopeParameters, UnsupportedRope

FAMILY = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaConfig(ModelConfig):
    """A member of the Llama family.

    Attributes:
        hidden_size, intermediate_size: of the residual stream and of the gated MLP.
        rms_norm_eps: added to the mean square.
        rope: rotary frequencies.
        tie_word_embeddings: the embedding is also the output projection.
    """

    hidden_size: int
    intermediate_size: int
    rms_norm_eps: float
    rope: RopeParameters
    tie_word_embeddings: bool

    @classmethod
    def from_folder(cls, folder: ModelFolder, kv_dtype_bytes: int = 4) -> "LlamaConfig":
        """Read and check the folder's config.json.

        Raises:
            ModelFileError: another architecture, an absurd size or a part that is not built.
        """
        path, config = folder.path / "config.json", folder.config
        if folder.architecture not in FAMILY:
            raise ModelFileError(
                path,
                f"model_type {folder.architecture!r} is not supported; supported are "
                f"{', '.join(FAMILY)}",
            )
        if config.get("hidden_act", "silu") != "silu":
            raise ModelFileError(path, f"hidden_act {config['hidden_act']!r}; built is 'silu'")
        heads, hidden = folder.integer("num_attention_heads"), folder.integer("hidden_size")
        kv_heads = _integer_or(folder, "num_key_value_heads", heads)
        head_dim = _integer_or(folder, "head_dim", max(1, hidden // heads))
        if heads % kv_heads or head_dim % 2:
            raise ModelFileError(path, f"{heads} heads, {kv_heads} KV heads of {head_dim}")
        try:
            rope = RopeParameters.from_config(config)
        except UnsupportedRope as error:
            raise ModelFileError(path, str(error)) from error
        return cls(
            name=folder.path.name,
            vocab_size=folder.vocab_size,
            max_context=folder.max_context,
            num_layers=folder.integer("num_hidden_layers"),
            num_heads=heads,
            num_kv_heads=kv_heads,
            head_dim=head_dim,
            eos_token_ids=folder.eos_token_ids,
            bos_token_id=folder.bos_token_id,
            kv_dtype_bytes=kv_dtype_bytes,
            hidden_size=hidden,
            intermediate_size=folder.integer("intermediate_size"),
            rms_norm_eps=float(config.get("rms_norm_eps", 1e-6)),
            rope=rope,
            tie_word_embeddings=bool(config.get("tie_word_embeddings", False)),
        )

    @property
    def layout(self) -> LlamaLayout:
        """Names and shapes of the tensors."""
        return LlamaLayout(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_layers=self.num_layers,
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            head_dim=self.head_dim,
        )


def _integer_or(folder: ModelFolder, field: str, default: int) -> int:
    return default if folder.config.get(field) is None else folder.integer(field)
