"""Memory that the system is to make now, not when it is first written."""

import ctypes
import mmap
import sys

_POPULATE_WRITE = 23  # of madvise(2), Linux from 5.14
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
if _libc is not None:
    _libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def populate(address: int, length: int) -> None:
    """Make the pages of a mapped range, whose content stays.

    A system that cannot makes them when they are written, as it would have.
    """
    if _libc is None:
        return
    start = address // mmap.PAGESIZE * mmap.PAGESIZE
    _libc.madvise(start, address + length - start, _POPULATE_WRITE)
