"""What one attempt takes up on its worker."""

from dataclasses import dataclass


@dataclass(slots=True)
class Holding:
    """Share of a worker's bounds and of its time.

    Attributes:
        cost: estimated cost, tokens.
        kv_blocks: KV blocks that it needs before it can produce anything.
        kv_blocks_held: of these, allocated as of the last report.
        places: answers that it makes at once.
        long: whether its prompt is long; it counts in `max_running_long`.
        offline: whether it counts in `offline_max_batch_tokens` alone.
        prompt_tokens: of the prompt; 0 when unknown.
        prefill_left: prompt tokens still to be computed, as far as is known.
        output: expected output, tokens.
        output_left: of it, still to be produced.
    """

    cost: int
    kv_blocks: int
    kv_blocks_held: int = 0
    places: int = 1
    long: bool = False
    offline: bool = False
    prompt_tokens: int = 0
    prefill_left: int = 0
    output: int = 0
    output_left: int = 0

    @property
    def kv_blocks_due(self) -> int:
        """Blocks that it will still take."""
        return max(0, self.kv_blocks - self.kv_blocks_held)

    def progressed(self, prompt_tokens: int, completion_tokens: int, kv_blocks: int) -> None:
        """Takes in a report: prompt tokens computed or hit, tokens sampled, blocks held."""
        self.kv_blocks_held = kv_blocks
        if prompt_tokens:
            self.prefill_left = max(0, self.prompt_tokens - prompt_tokens)
        self.output_left = max(0, self.output - completion_tokens)
