"""Runs `weir_worker.models.fetch`, which fetches and converts models, in a process of its own."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Sequence
from pathlib import Path

from weir_cli.errors import CommandError

_MODULE = "weir_worker.models.fetch"
_DEADLINE_S = 900.0
_QUIET_S = 3.0
_PATIENCE_S = 15.0


async def model_process(
    arguments: Sequence[str], what: str, say: Callable[[str], None], *, preparing: str = ""
) -> Path:
    """The folder that it prints.

    Args:
        arguments: of the module.
        what: the model's name in messages, such as `the default model`.
        say: gets a line once it takes longer than a look at a finished folder, then one now
            and then.
        preparing: the first such line.

    Raises CommandError, in the words of the process that failed.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", _MODULE, *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    output = asyncio.ensure_future(process.communicate())
    try:
        async with asyncio.timeout(_DEADLINE_S):
            await _say_progress(output, say, preparing or f"Preparing {what}")
            out, err = await output
    except TimeoutError:
        raise CommandError(
            f"{what} was not there after {_DEADLINE_S:.0f} s; give a --model FOLDER"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
        output.cancel()
    if process.returncode:
        lines = err.decode(errors="replace").strip().splitlines() or ["no output"]
        raise CommandError(lines[-1].removeprefix("error: "))
    return Path(out.decode().strip().splitlines()[-1])


async def _say_progress(
    output: asyncio.Future[tuple[bytes, bytes]], say: Callable[[str], None], first: str
) -> None:
    if (await asyncio.wait({output}, timeout=_QUIET_S))[0]:
        return
    say(first)
    waited = _QUIET_S
    while not (await asyncio.wait({output}, timeout=_PATIENCE_S))[0]:
        waited += _PATIENCE_S
        say(f"  still preparing it ({waited:.0f} s)")
