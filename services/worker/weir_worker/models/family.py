"""The architectures that are built, and how each differs from Llama."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

GELU_TANH = "gelu_pytorch_tanh"


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyMember:
    """What holds for every model of one `model_type`.

    Attributes:
        model_type: of config.json.
        class_name: of the model in Hugging Face's library.
        gguf_name: `general.architecture` of GGUF files.
        interleaved: GGUF files hold the rotated pairs of queries and keys side by side.
        qkv_bias: the projections to query, key and value have biases.
        head_norms: queries and keys are normalised head by head.
        sandwich_norms: what attention and MLP put out is normalised too.
        gain_offset: added to every norm's gain.
        scaled_embedding: embeddings are multiplied by the square root of their width.
        activation: of the MLP's gate.
        activation_field: of config.json, that names it.
        tied: whether embedding and output projection are one where config.json is silent.
        head_dim: where config.json is silent; None: width over heads.
    """

    model_type: str
    class_name: str
    gguf_name: str
    interleaved: bool = False
    qkv_bias: bool = False
    head_norms: bool = False
    sandwich_norms: bool = False
    gain_offset: float = 0.0
    scaled_embedding: bool = False
    activation: str = "silu"
    activation_field: str = "hidden_act"
    tied: bool = False
    head_dim: int | None = None


_MEMBERS = (
    FamilyMember(
        model_type="llama", class_name="LlamaForCausalLM", gguf_name="llama", interleaved=True
    ),
    # GGUF files know no architecture of this name: they are of architecture llama.
    FamilyMember(
        model_type="mistral", class_name="MistralForCausalLM", gguf_name="", interleaved=True
    ),
    FamilyMember(
        model_type="qwen2", class_name="Qwen2ForCausalLM", gguf_name="qwen2", qkv_bias=True
    ),
    FamilyMember(
        model_type="qwen3",
        class_name="Qwen3ForCausalLM",
        gguf_name="qwen3",
        head_norms=True,
        head_dim=128,
    ),
    FamilyMember(
        model_type="gemma3_text",
        class_name="Gemma3ForCausalLM",
        gguf_name="gemma3",
        head_norms=True,
        sandwich_norms=True,
        gain_offset=1.0,
        scaled_embedding=True,
        activation=GELU_TANH,
        activation_field="hidden_activation",
        tied=True,
        head_dim=256,
    ),
)
FAMILY: Mapping[str, FamilyMember] = MappingProxyType({m.model_type: m for m in _MEMBERS})
GGUF_FAMILY: Mapping[str, FamilyMember] = MappingProxyType(
    {member.gguf_name: member for member in _MEMBERS if member.gguf_name}
)
