"""The lines of an input file, from its chunks, one at a time."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

_NEWLINE = b"\n"


@dataclass(frozen=True, slots=True)
class InputLine:
    """A line that is not blank.

    Attributes:
        number: in the file, from 1.
        content: without its end; None: it was longer than a line may be.
        size: bytes, its end apart.
        end: bytes of the file up to its end.
    """

    number: int
    content: bytes | None
    size: int
    end: int


async def input_lines(
    chunks: AsyncIterator[bytes], longest: int, *, start: int = 0
) -> AsyncIterator[InputLine]:
    """The lines of what chunks hold together; no more than a chunk and a line is kept.

    Args:
        chunks: the content, from `start` on.
        longest: bytes of a line; of a longer one nothing is kept.
        start: bytes of the file before it; lines are numbered from there.
    """
    kept = bytearray()
    number, size, end = 0, 0, start
    async for chunk in chunks:
        position = 0
        while (stop := chunk.find(_NEWLINE, position)) >= 0:
            part = chunk[position:stop]
            size, end, number = size + len(part), end + len(part) + 1, number + 1
            content = bytes(kept) + part if size <= longest else None
            if content is None or content.strip():
                yield InputLine(number, content, size, end)
            kept.clear()
            size, position = 0, stop + 1
        rest = chunk[position:]
        size, end = size + len(rest), end + len(rest)
        if size <= longest:
            kept += rest
        else:
            kept.clear()
    content = bytes(kept) if size <= longest else None
    if content is None or content.strip():
        yield InputLine(number + 1, content, size, end)
