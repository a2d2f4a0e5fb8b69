"""The Llama family of decoders: Llama, SmolLM2, Mistral, Qwen2, Qwen2.5, Qwen3, Gemma 3."""

from collections.abc import Sequence

import torch
from torch.nn import functional

from weir_worker.attention import AttentionName, AttentionPlan, PagedKvCache
from weir_worker.models.base import ForwardBatch
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.llama_layer import LlamaLayer
from weir_worker.models.parts import Parts, TorchParts
from weir_worker.models.rope import RotaryTable
from weir_worker.models.weights import Weights


class LlamaModel:
    """See `CausalModel`. `forward` may be called after `allocate_kv`, by one thread at a time."""

    def __init__(
        self,
        config: LlamaConfig,
        weights: Weights,
        *,
        device: torch.device,
        dtype: torch.dtype,
        attention: AttentionName = "auto",
        parts: Parts | None = None,
    ) -> None:
        parts = parts or TorchParts()
        self._parts = parts
        self._config = config
        self._device = device
        self._dtype = dtype
        self._attention = parts.attention(
            attention,
            device,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
        )
        self._embedding = weights.take("model.embed_tokens.weight")
        self._layers = [
            LlamaLayer(config, weights, index, parts) for index in range(config.num_layers)
        ]
        gain = weights.take("model.norm.weight") + config.member.gain_offset
        self._norm = parts.norm(gain, config.hidden_size, config.rms_norm_eps)
        tied = config.tie_word_embeddings or "lm_head.weight" not in weights
        self._head = parts.head(self._embedding if tied else weights.take("lm_head.weight"))
        self._rotary = {
            rope: RotaryTable(rope, config.head_dim, config.max_context, device, dtype)
            for rope in {kind.rope for kind in config.layers}
        }
        self._cache: PagedKvCache | None = None

    @property
    def config(self) -> LlamaConfig:
        """Sizes and special tokens."""
        return self._config

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and cache."""
        return self._dtype

    @property
    def attention_backend(self) -> str:
        """Name of the backend in use."""
        return self._attention.name

    def allocate_kv(self, num_blocks: int, block_size: int) -> None:
        """See `CausalModel.allocate_kv`.

        Raises:
            InvalidField: a number is not positive.
        """
        self._cache = None  # frees the old one before the new one is made
        self._cache = self._parts.cache(
            num_layers=self._config.num_layers,
            num_blocks=num_blocks,
            block_size=block_size,
            num_kv_heads=self._config.num_kv_heads,
            head_dim=self._config.head_dim,
            dtype=self._dtype,
            device=self._device,
        )

    def clear_kv(self, blocks: Sequence[int]) -> None:
        """See `CausalModel.clear_kv`."""
        if self._cache is not None:
            self._cache.clear(blocks)

    @torch.inference_mode()
    def forward(self, batch: ForwardBatch) -> torch.Tensor:
        """See `CausalModel.forward`."""
        cache = self._cache
        if cache is None:
            raise RuntimeError("forward before allocate_kv")
        plan = self._attention.plan(batch, cache)
        tokens = torch.tensor(batch.token_ids, dtype=torch.int64, device=self._device)
        wanted = torch.tensor(batch.logit_rows, dtype=torch.int64, device=self._device)
        x = functional.embedding(plan.rows.arrange(tokens), self._embedding)
        x.mul_(self._config.embedding_scale)
        x = self._run_layers(x, plan, cache, plan.rows.locate(wanted))
        if not len(batch.logit_rows):
            return x.new_empty((0, self._config.vocab_size), dtype=torch.float32)
        return self._head(self._norm(x)).float()

    def _run_layers(
        self, x: torch.Tensor, plan: AttentionPlan, cache: PagedKvCache, wanted: torch.Tensor
    ) -> torch.Tensor:
        """The residual stream of the wanted rows after the last layer.

        The last layer's keys and values are written for all rows, its output is computed for
        the wanted ones only: nobody reads the others'.
        """
        angles = {rope: table.at(plan.rows.positions) for rope, table in self._rotary.items()}
        last = len(self._layers) - 1
        for index, layer in enumerate(self._layers):
            kind = self._config.layers[index]
            q, k, v = layer.project(x, *angles[kind.rope])
            cache.write(index, k, v, plan.rows.slots)
            if index == last and not len(wanted):
                return x[wanted]
            attended = plan.attend(q, cache.keys[index], cache.values[index], kind.window)
            if index == last:
                x, attended = x[wanted], attended[wanted]
            x = layer.finish(x, attended)
        return x
