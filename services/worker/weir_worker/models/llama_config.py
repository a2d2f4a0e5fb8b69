"""Reads config.json of the Llama family."""

import math
from dataclasses import dataclass
from typing import Any

from weir_core.model_folder import ModelFileError, ModelFolder
from weir_worker.models.config import ModelConfig
from weir_worker.models.family import FAMILY, FamilyMember
from weir_worker.models.layer_kind import LayerKind, layer_kinds
from weir_worker.models.llama_layout import LlamaLayout

# Fields that change what is computed and are not built, each with the values that do not.
_NOT_BUILT: dict[str, tuple[Any, ...]] = {
    "attn_logit_softcapping": (None,),
    "final_logit_softcapping": (None,),
    "use_bidirectional_attention": (None, False),
    "mlp_bias": (None, False),
    "quantization_config": (None,),
}
_MOST_LAYERS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaConfig(ModelConfig):
    """A member of the Llama family.

    Attributes:
        hidden_size, intermediate_size: of the residual stream and of the gated MLP.
        rms_norm_eps: added to the mean square.
        member: what its architecture is.
        layers: the kind of each layer.
        query_scale: multiplies queries before the usual 1 / sqrt(head_dim).
        tie_word_embeddings: the embedding is also the output projection.
    """

    hidden_size: int
    intermediate_size: int
    rms_norm_eps: float
    member: FamilyMember
    layers: tuple[LayerKind, ...]
    query_scale: float
    tie_word_embeddings: bool

    @classmethod
    def from_folder(cls, folder: ModelFolder, kv_dtype_bytes: int = 4) -> "LlamaConfig":
        """Read and check the folder's config.json.

        Raises:
            ModelFileError: another architecture, an absurd size or a part that is not built.
        """
        config, member = folder.config, _member(folder)
        heads, hidden = folder.integer("num_attention_heads"), folder.integer("hidden_size")
        kv_heads = folder.integer("num_key_value_heads", heads)
        head_dim = folder.integer("head_dim", member.head_dim or max(1, hidden // heads))
        if heads % kv_heads or head_dim % 2:
            problem = (
                f"{heads} heads, {kv_heads} KV heads of {head_dim}; heads must be a multiple of "
                "KV heads, and their size even"
            )
            raise ModelFileError(folder.path / "config.json", problem)
        num_layers = folder.integer("num_hidden_layers", most=_MOST_LAYERS)
        return cls(
            name=folder.path.name,
            vocab_size=folder.vocab_size,
            max_context=folder.max_context,
            num_layers=num_layers,
            num_heads=heads,
            num_kv_heads=kv_heads,
            head_dim=head_dim,
            eos_token_ids=folder.eos_token_ids,
            bos_token_id=folder.bos_token_id,
            kv_dtype_bytes=kv_dtype_bytes,
            hidden_size=hidden,
            intermediate_size=folder.integer("intermediate_size"),
            rms_norm_eps=folder.number("rms_norm_eps", 1e-6),
            member=member,
            layers=layer_kinds(folder, num_layers),
            query_scale=math.sqrt(head_dim / folder.number("query_pre_attn_scalar", head_dim)),
            tie_word_embeddings=bool(config.get("tie_word_embeddings", member.tied)),
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
            member=self.member,
        )

    @property
    def embedding_scale(self) -> float:
        """What embeddings are multiplied by."""
        return math.sqrt(self.hidden_size) if self.member.scaled_embedding else 1.0


def _member(folder: ModelFolder) -> FamilyMember:
    path, config = folder.path / "config.json", folder.config
    member = FAMILY.get(folder.architecture)
    if member is None:
        raise ModelFileError(
            path,
            f"model_type {folder.architecture!r:.80} is not supported; supported are "
            f"{', '.join(FAMILY)}",
        )
    activation = config.get(member.activation_field, member.activation)
    if activation != member.activation:
        problem = f"{member.activation_field} {activation!r:.80}; built is {member.activation!r}"
        raise ModelFileError(path, problem)
    for field, harmless in _NOT_BUILT.items():
        if config.get(field) not in harmless:
            raise ModelFileError(path, f"{field} is {config[field]!r:.80}: not built")
    return member
