"""Keys of a terminal, one at a time and without echo."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def keys() -> Iterator["asyncio.Queue[str]"]:
    """What is pressed, until the end of the body; the terminal is as before then."""
    pressed: asyncio.Queue[str] = asyncio.Queue(maxsize=256)
    if not sys.stdin.isatty():
        yield pressed
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def read() -> None:
        for key in os.read(descriptor, 64).decode(errors="ignore"):
            if not pressed.full():
                pressed.put_nowait(key)

    try:
        tty.setcbreak(descriptor)
        loop.add_reader(descriptor, read)
        yield pressed
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
