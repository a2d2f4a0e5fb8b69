"""What happened to remote attempts since the last frame."""

from collections.abc import Callable

import msgspec

from weir_worker.engine.events import Delta, Prefilled, Progress, StepOutput, Terminal
from weir_worker.engine.load import Counters, Load


class RemoteNews:
    """Gathers events until a frame takes them.

    KV of a remote engine is unknown: every attempt is reported to hold the blocks that its
    tokens would fill, of a pool that is large enough for `most_running` of them.

    Args:
        block_size: tokens of a block.
        total_blocks: of the pool.
        on_news: called with every event; must not block.
    """

    def __init__(
        self, block_size: int, total_blocks: int, on_news: Callable[[], None] = lambda: None
    ) -> None:
        self.counters = Counters()
        self._block_size = block_size
        self._total_blocks = total_blocks
        self._on_news = on_news
        self._deltas: dict[tuple[str, int], Delta] = {}
        self._prefilled: list[Prefilled] = []
        self._terminals: list[Terminal] = []

    def __bool__(self) -> bool:
        return bool(self._deltas or self._prefilled or self._terminals)

    def add_delta(self, delta: Delta) -> None:
        """New tokens; joined with those of the attempt that wait already."""
        self.counters.generated_tokens += len(delta.token_ids)
        key = (delta.request_id, delta.attempt)
        waiting = self._deltas.get(key)
        if waiting is not None:
            token_ids = waiting.token_ids + delta.token_ids
            delta = msgspec.structs.replace(
                delta, token_ids=token_ids, text=waiting.text + delta.text
            )
        self._deltas[key] = delta
        self._on_news()

    def add_prefilled(self, prefilled: Prefilled) -> None:
        """The first token came."""
        self._prefilled.append(prefilled)
        self._on_news()

    def add_terminal(self, terminal: Terminal) -> None:
        """The end."""
        self._terminals.append(terminal)
        self._on_news()

    def take(self, progress: list[Progress], waiting: int) -> StepOutput:
        """The frame of all that was gathered; `progress` is of every attempt."""
        held = min(self._total_blocks, sum(one.kv_blocks for one in progress))
        load = Load(
            running=len(progress) - waiting,
            waiting=waiting,
            free_blocks=self._total_blocks - held,
            held_blocks=held,
            total_blocks=self._total_blocks,
            counters=self.counters,
        )
        output = StepOutput(
            list(self._deltas.values()), self._prefilled, self._terminals, progress, load
        )
        self._deltas, self._prefilled, self._terminals = {}, [], []
        return output

    def blocks(self, tokens: int) -> int:
        """KV blocks that so many tokens fill."""
        return -(-tokens // self._block_size)
