"""Ends a process that a benchmark started."""

import asyncio


async def end_process(process: asyncio.subprocess.Process, patience_s: float) -> None:
    """Asks it to end, and kills it if it has not within `patience_s`."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(patience_s):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
