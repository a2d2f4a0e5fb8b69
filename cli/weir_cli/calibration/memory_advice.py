"""Memory of the KV cache, and the part of it that one tenant may hold."""

import math

from weir_cli.calibration.advice import Advice, up
from weir_cli.calibration.findings import Findings

_CACHE_LEAST = 0.25


def held_tokens(found: Findings, streams: int) -> int:
    """Tokens of KV that requests hold at the peak: as measured, or of the largest cell."""
    worker = found.worker
    measured = found.peak.get(streams)
    seen = measured.memory.held_blocks * worker.block_size if measured is not None else 0
    largest = max(up(cell.prompt + cell.output, worker.block_size) for cell in found.cells)
    return max(seen, streams * largest)


def memory_advice(found: Findings, need: int) -> tuple[Advice, ...]:
    """The worker's `kv_memory_bytes`; nothing where it does not report its memory."""
    measured = found.peak.get(found.best.streams)
    held = measured.memory.held_blocks if measured is not None else 0
    if measured is None or not held or not measured.memory.kv_bytes:
        return ()
    token_bytes = measured.memory.kv_bytes / (held * found.worker.block_size)
    now = found.worker.kv_blocks * found.worker.block_size
    least = math.ceil(max(need, found.worker.max_context) / (1 - _CACHE_LEAST))
    tokens = max(now, least)
    share = 1 - need / tokens
    why = (
        f"requests hold {need} tokens at the peak, {token_bytes:.0f} bytes each; "
        f"{share:.0%} are left for cached prefixes and sessions"
        + (" (what the worker has now)" if tokens == now else ", a quarter at least")
    )
    return (Advice("kv_memory_bytes", math.ceil(tokens * token_bytes), None, why),)


def quota_advice(found: Findings, need: int) -> Advice:
    """A tenant's `kv.max_tokens`."""
    now = found.worker.kv_blocks * found.worker.block_size
    value = max(found.worker.max_context, min(now, need))
    why = (
        "what all requests at the peak hold: one tenant can use the whole worker, and not what "
        "is left for the cached prefixes of others"
    )
    return Advice("kv.max_tokens", value, None, why)
