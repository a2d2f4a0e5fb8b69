"""The decisions, in Lua: each script is the parts that it needs, one after the other.

A script is one file to the server and has no `require`; what is never called costs a closure a
call, which is less than a microsecond.
"""

import hashlib
from importlib.resources import files

import msgspec

_BUCKETS = ("numbers", "buckets")
_RECORDS = (*_BUCKETS, "removed", "layout", "leases", "lapse", "rebuild")


class Script(msgspec.Struct, frozen=True):
    """A script and the name under which the server knows it."""

    name: str
    source: str
    sha: str

    @classmethod
    def of(cls, *parts: str) -> "Script":
        """Put the parts together; the last one gives the name."""
        folder = files(__package__)
        texts = [folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in parts]
        source = "\n".join(texts)
        return cls(
            parts[-1], source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
        )


RESERVE = Script.of(*_BUCKETS, "layout", "leases", "views", "idle", "reserve")
EXTEND = Script.of(*_RECORDS, "repack", "extend")
END = Script.of(*_RECORDS, "repack", "end")
LOOK = Script.of("numbers", "layout", "leases", "views", "look")
SHORTEN = Script.of("numbers", "layout", "leases", "repack", "shorten")
SEED = Script.of("numbers", "seed")
ADJUST = Script.of(*_BUCKETS, "layout", "adjust")

DECISIONS = (RESERVE, EXTEND, END, LOOK)
