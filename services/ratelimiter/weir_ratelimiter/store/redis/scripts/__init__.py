"""The decisions, in Lua: one library of functions, which a server keeps and never runs anew.

Each function is a file, and so is each part that they share. A library's name and those of its
functions tell its contents, so that releases can serve side by side.
"""

import hashlib
from collections.abc import Sequence
from importlib.resources import files

import msgspec

PARTS = (
    "numbers",
    "layout",
    "plans",
    "buckets",
    "leases",
    "views",
    "idle",
    "admission",
    "removed",
    "lapse",
    "rebuild",
    "repack",
)
_FUNCTIONS = ("reserve", "extend", "end", "look", "shorten", "seed", "adjust", "beat")


class Library(msgspec.Struct, frozen=True):
    """What a server is given once.

    Attributes:
        source: what FUNCTION LOAD takes.
        version: ends the names of its functions.
    """

    source: str
    version: str

    @classmethod
    def of(cls, parts: Sequence[str], bodies: dict[str, str]) -> "Library":
        """Put parts together, and functions of KEYS and ARGV."""
        shared = "\n".join(text_of(part) for part in parts)
        contents = shared + "".join(_function(name, body, "") for name, body in bodies.items())
        version = hashlib.sha256(contents.encode()).hexdigest()[:12]
        functions = [_function(name, body, version) for name, body in bodies.items()]
        return cls("\n".join([f"#!lua name=weir_{version}", shared, *functions]), version)

    def name_of(self, function: str) -> str:
        """The name under which the server knows a function."""
        return _name(function, self.version)


def text_of(part: str) -> str:
    """The Lua of a file."""
    return files(__package__).joinpath(f"{part}.lua").read_text(encoding="utf-8")


def _function(name: str, body: str, version: str) -> str:
    head = f"redis.register_function('{_name(name, version)}', function(KEYS, ARGV)"
    return f"{head}\nif not call then wake() end\n{body}\nend)"


def _name(function: str, version: str) -> str:
    return f"weir_{function}_{version}"


LIBRARY = Library.of(PARTS, {name: text_of(name) for name in _FUNCTIONS})
RESERVE, EXTEND, END, LOOK, SHORTEN, SEED, ADJUST, BEAT = map(LIBRARY.name_of, _FUNCTIONS)
