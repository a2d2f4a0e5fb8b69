"""LiteLLM's limiter as a peer of ours."""

import asyncio
import json
import os
from pathlib import Path

from bench.peers.home import interpreter, is_installed
from bench.peers.peer_process import PeerFailed

_ROOT = Path(__file__).resolve().parents[2]
_LOAD_S = 120.0


async def litellm_decisions_per_second(seconds: float) -> float:
    """Checks that it makes in so many seconds, without its proxy's HTTP: one process, in memory.

    Raises:
        PeerFailed: it is not installed, or failed.
    """
    if not is_installed("litellm"):
        raise PeerFailed("litellm is not installed; `make peers` does")
    process = await asyncio.create_subprocess_exec(
        str(interpreter("litellm")),
        "-m",
        "bench.peers.run_litellm_limiter",
        str(seconds),
        cwd=_ROOT,
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), seconds + _LOAD_S)
    except TimeoutError:
        raise PeerFailed("litellm did not answer in time") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        told = errors.decode(errors="replace").strip().splitlines() or ["no output"]
        raise PeerFailed(f"litellm: {told[-1][:200]}")
    return float(json.loads(output.splitlines()[-1])["decisions_s"])
