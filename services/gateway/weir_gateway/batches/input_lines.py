"""The lines of an input file, from its chunks, one at a time."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

_NEWLINE = b"\n"
_MARK = b"\xef\xbb\xbf"
_BLANK = re.compile(rb"[ \t\n\r\x0b\x0c]*+")


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

    Blank lines are left out, as is a byte order mark at the start of the file.

    Args:
        chunks: the content, from `start` on.
        longest: bytes of a line; of a longer one nothing is kept.
        start: bytes of the file before it; lines are numbered from there.
    """
    kept = bytearray()
    number, size, end = 0, 0, start
    async for chunk in chunks:
        position = 0
        while True:
            if not size and (after := _after_blank_lines(chunk, position)):
                number += chunk.count(_NEWLINE, position, after)
                end, position = end + after - position, after
            stop = chunk.find(_NEWLINE, position)
            if stop < 0:
                break
            part = chunk[position:stop]
            size, end, number = size + len(part), end + len(part) + 1, number + 1
            content = _text(bytes(kept) + part, end - size - 1) if size <= longest else None
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
    content = _text(bytes(kept), end - size) if size <= longest else None
    if content is None or content.strip():
        yield InputLine(number + 1, content, size, end)


def _after_blank_lines(chunk: bytes, position: int) -> int:
    """Where the blank lines end that begin at a position, 0 for none.

    All at once, since a file may hold hundreds of millions and nobody else runs meanwhile.
    """
    blank = _BLANK.match(chunk, position)
    return 0 if blank is None else chunk.rfind(_NEWLINE, position, blank.end()) + 1


def _text(content: bytes, begins: int) -> bytes:
    return content if begins else content.removeprefix(_MARK)
