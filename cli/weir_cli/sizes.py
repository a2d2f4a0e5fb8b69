"""Sizes of memory, as people write and read them."""

import re

from weir_cli.errors import CommandError

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


def parse_size(text: str, option: str) -> int:
    """Bytes of such as `512MiB`, `1.5g` or `1000000`. Raises CommandError naming `option`."""
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _UNITS[match[2].lower()]) if match else 0
    if size < 1:
        raise CommandError(f"{option} is {text!r}; it must be a size such as 512MiB or 2GiB")
    return size


def size_text(size: int) -> str:
    """Such as `540 B`, `23.4 KiB`, `1.0 GiB`."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
