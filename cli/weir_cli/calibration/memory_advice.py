"""Memory of the KV cache, and the part of it that one tenant may hold."""

import math

from weir_cli.calibration.advice import Advice
from weir_cli.calibration.findings import Findings
from weir_cli.calibration.settings_search import Search

_CACHE_LEAST = 0.25


def held_tokens(found: Findings, search: Search | None) -> int:
    """Tokens of KV that requests hold at the most: as measured, or in the simulator."""
    measured = max(one.memory.held_blocks for one in found.peak.values())
    simulated = search.chosen.held_blocks if search is not None else 0
    return max(measured, simulated) * found.worker.block_size


def memory_advice(found: Findings, need: int) -> tuple[Advice, ...]:
    """The worker's `kv_memory_bytes`; nothing where it does not report its memory."""
    measured = max(found.peak.values(), key=lambda one: one.memory.held_blocks)
    held = measured.memory.held_blocks
    if not held or not measured.memory.kv_bytes:
        return ()
    token_bytes = measured.memory.kv_bytes / (held * found.worker.block_size)
    now = found.worker.kv_blocks * found.worker.block_size
    least = math.ceil(max(need, found.worker.max_context) / (1 - _CACHE_LEAST))
    tokens = max(now, least)
    share = 1 - need / tokens
    why = (
        f"requests hold up to {need} tokens, {token_bytes:.0f} bytes each; "
        f"{share:.0%} are left for cached prefixes and sessions"
        + (" (what the worker has now)" if tokens == now else ", a quarter at least")
    )
    return (Advice("kv_memory_bytes", math.ceil(tokens * token_bytes), None, why),)


def quota_advice(found: Findings, need: int) -> Advice:
    """A tenant's `kv.max_tokens`."""
    now = found.worker.kv_blocks * found.worker.block_size
    value = max(found.worker.max_context, min(now, need))
    why = (
        "the most that all requests held: one tenant can use the whole worker, and not what "
        "is left for the cached prefixes of others"
    )
    return Advice("kv.max_tokens", value, None, why)
