"""Formats by name, and which one a file is of."""

from collections.abc import Mapping
from pathlib import Path

from weir_sim.traces.arena import Arena
from weir_sim.traces.azure import Azure
from weir_sim.traces.lines import first_line
from weir_sim.traces.mooncake import Mooncake
from weir_sim.traces.servegen import ServeGen
from weir_sim.traces.sharegpt import ShareGpt
from weir_sim.traces.ssjf import Ssjf
from weir_sim.traces.trace_error import TraceError
from weir_sim.traces.trace_format import TraceFormat
from weir_sim.traces.vidur import Vidur

_ALL: tuple[TraceFormat, ...] = (
    Azure(),
    Mooncake(),
    ServeGen(),
    Arena(),
    Ssjf(),
    Vidur(),
    ShareGpt(),
)
FORMATS: Mapping[str, TraceFormat] = {one.name: one for one in _ALL}


def format_of(path: Path, name: str = "") -> TraceFormat:
    """The format of that name, or the one that the file's first line shows.

    Raises:
        TraceError: no such format, or none that begins so.
    """
    known = ", ".join(FORMATS)
    if name:
        try:
            return FORMATS[name]
        except KeyError:
            raise TraceError(f"--format is {name!r}; it must be one of {known}") from None
    head = first_line(path)
    for one in FORMATS.values():
        if one.matches(head):
            return one
    raise TraceError(f"{path}, line 1: {head[:80]!r} begins none of {known}; name it by --format")
