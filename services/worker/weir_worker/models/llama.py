"""The Llama family of decoders: Llama, SmolLM2, Mistral, Qwen2, Qwen2.5, Qwen3, Gemma 3."""

from collections.abc import Sequence

import torch

from weir_worker.attention import AttentionName, AttentionPlan, PagedKvCache
from weir_worker.attention.base import DecodePlanner
from weir_worker.attention.rows import StepRows
from weir_worker.attention.tables import PagedTables
from weir_worker.models.base import ForwardBatch
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.llama_layer import LlamaLayer
from weir_worker.models.parts import Parts, TorchParts
from weir_worker.models.rope import RotaryTable
from weir_worker.models.weights import Weights
from weir_worker.parallel.ranks import ALONE, Ranks


class LlamaModel:
    """See `CausalModel`. `forward` may be called after `allocate_kv`, by one thread at a time.

    Attributes:
        int8_method: how the linear layers are rounded; None: they are not.
        kernels: instructions of the compiled kernels that compute, or `off`.
    """

    def __init__(
        self,
        config: LlamaConfig,
        weights: Weights,
        *,
        device: torch.device,
        dtype: torch.dtype,
        kv_dtype: torch.dtype | None = None,
        attention: AttentionName = "auto",
        block_size: int = 16,
        ranks: Ranks = ALONE,
        parts: Parts | None = None,
    ) -> None:
        parts = parts or TorchParts()
        self._config = config
        self._parts = parts
        self._ranks = ranks
        self._device = device
        self._dtype = dtype
        self._kv_dtype = kv_dtype or dtype
        self._attention = parts.attention(
            attention,
            device,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            dtype=dtype,
            block_size=block_size,
        )
        self._embedding = weights.embedding()
        self._layers = [
            LlamaLayer(config, weights, index, parts, ranks) for index in range(config.num_layers)
        ]
        gain = weights.take("model.norm.weight") + config.member.gain_offset
        self._norm = parts.norm(gain, config.hidden_size, config.rms_norm_eps)
        self._head = weights.head(parts, tied=config.tie_word_embeddings)
        self._own_hidden = weights.hidden()
        self._rotary = {
            rope: RotaryTable(rope, config.head_dim, config.max_context, device, dtype)
            for rope in {kind.rope for kind in config.layers}
        }
        self._cache: PagedKvCache | None = None
        self._decoder = parts.decoder(config, self._layers)
        self.int8_method = parts.int8_method if weights.int8 else None
        self.kernels = parts.kernels

    @property
    def config(self) -> LlamaConfig:
        """Sizes and special tokens."""
        return self._config

    @property
    def dtype(self) -> torch.dtype:
        """Of what is computed, and of the weights that are not of 8 bits."""
        return self._dtype

    @property
    def attention_backend(self) -> str:
        """Name of the backend in use."""
        return self._attention.name

    @property
    def kv_cache(self) -> PagedKvCache:
        """The cache that `allocate_kv` made.

        Raises:
            RuntimeError: it has not.
        """
        if self._cache is None:
            raise RuntimeError("kv_cache before allocate_kv")
        return self._cache

    def allocate_kv(self, num_blocks: int, block_size: int) -> None:
        """See `CausalModel.allocate_kv`.

        Raises:
            InvalidField: a number is not positive.
        """
        config = self._config
        self._cache = None  # frees the old one before the new one is made
        self._cache = self._parts.cache(
            num_layers=config.num_layers,
            num_blocks=num_blocks,
            block_size=block_size,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            dtype=self._kv_dtype,
            device=self._device,
        )
        if self._decoder is not None:
            self._decoder.bind(self._cache, [self._rotary[kind.rope] for kind in config.layers])

    def touch_kv(self, first: int, count: int) -> None:
        """Have the memory of so many blocks made; see `PagedKvCache.touch`."""
        self.kv_cache.touch(first, count)

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
        return self.compute(plan.rows.arrange(tokens), plan, plan.rows.locate(wanted))

    @torch.inference_mode()
    def pool(self, batch: ForwardBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """See `CausalModel.pool`; not for a model that several ranks share."""
        cache = self._cache
        if cache is None:
            raise RuntimeError("pool before allocate_kv")
        plan = self._attention.plan(batch, cache)
        tokens = torch.tensor(batch.token_ids, dtype=torch.int64, device=self._device)
        rows = sorted({*batch.logit_rows, *(row for span in batch.pooled for row in _rows(*span))})
        wanted = torch.tensor(rows, dtype=torch.int64, device=self._device)
        hidden = self._hidden(plan.rows.arrange(tokens), plan, plan.rows.locate(wanted), cache)
        at = {row: place for place, row in enumerate(rows)}
        sums = [
            hidden[at[first] : at[first] + length].double().sum(0) for first, length in batch.pooled
        ]
        places = [at[row] for row in batch.logit_rows]
        told = hidden[torch.tensor(places, dtype=torch.int64, device=self._device)]
        logits = self._head(told).float() if places else hidden.new_empty((0, 0))
        return logits, self._own_hidden(torch.stack(sums).cpu())

    @torch.inference_mode()
    def compute(
        self, tokens: torch.Tensor, plan: AttentionPlan, wanted: torch.Tensor
    ) -> torch.Tensor:
        """The part of `forward` that happens on the device alone.

        Args:
            tokens: int64 [rows], in the plan's order.
            plan: of this model's attention backend.
            wanted: int64, rows in the plan's order.

        Returns:
            Logits, fp32 [len(wanted), vocab_size].
        """
        if self._cache is None:
            raise RuntimeError("a step before allocate_kv")
        hidden = self._hidden(tokens, plan, wanted, self._cache)
        if not len(wanted):
            return hidden.new_empty((0, self._config.vocab_size), dtype=torch.float32)
        return self._ranks.joined(self._head(hidden).float(), self._config.vocab_size)

    def _hidden(
        self, tokens: torch.Tensor, plan: AttentionPlan, wanted: torch.Tensor, cache: PagedKvCache
    ) -> torch.Tensor:
        """What enters the projection to logits, [len(wanted), hidden_size]."""
        x = self._ranks.embedded(tokens, self._embedding)
        x.mul_(self._config.embedding_scale)
        x = self._run_layers(x, plan, cache, wanted)
        return self._norm(x) if len(wanted) else x

    @property
    def plans_decodes(self) -> bool:
        """Whether the attention backend makes plans whose tensors may change later."""
        return isinstance(self._attention, DecodePlanner)

    def decode_plan(self, rows: StepRows, tables: PagedTables) -> AttentionPlan:
        """A plan of one row a sequence over tensors whose contents may change later.

        Raises:
            TypeError: not `plans_decodes`.
        """
        if not isinstance(self._attention, DecodePlanner):
            raise TypeError(f"attention {self._attention.name!r} makes no such plans")
        return self._attention.decode_plan(rows, tables)

    def _run_layers(
        self, x: torch.Tensor, plan: AttentionPlan, cache: PagedKvCache, wanted: torch.Tensor
    ) -> torch.Tensor:
        """The residual stream of the wanted rows after the last layer.

        The last layer's keys and values are written for all rows, its output is computed for
        the wanted ones only: nobody reads the others'.
        """
        if self._decoder is not None:
            return self._decoder.run(x, plan, wanted)
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


def _rows(first: int, length: int) -> range:
    return range(first, first + length)
