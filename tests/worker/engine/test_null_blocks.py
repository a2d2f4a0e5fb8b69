"""How many KV blocks the null model has, whose KV takes no memory."""

from typing import Any

import pytest

from weir_worker.engine.config import NULL_BLOCKS, EngineConfig
from weir_worker.engine.factory import build_engine


@pytest.mark.parametrize(
    ("settings", "blocks"),
    [
        ({}, NULL_BLOCKS),
        ({"num_blocks": 20_000}, 20_000),
        ({"max_running": 2, "max_context": 1_600}, 200),
        # Blocks of 16 tokens, of 8 bytes each.
        ({"kv_memory_bytes": 128 * 100}, 100),
    ],
    ids=["none set", "as set", "what may run", "what memory holds"],
)
def test_blocks_that_nobody_asked_for_are_few(settings: dict[str, Any], blocks: int) -> None:
    assert build_engine(EngineConfig(model="null", **settings)).ready.num_blocks == blocks
