"""Mooncake traces: one JSON object a line with prefix ids of 512 tokens.

`{"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [...]}`; an id stands for a
piece of 512 tokens and all before it. Source: https://github.com/kvcache-ai/Mooncake
(Apache-2.0).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weir_sim.traces.lines import MAX_SECONDS, MAX_TOKENS, opened
from weir_sim.traces.trace_error import TraceError, bad_field
from weir_sim.traces.trace_format import ReadSpan, within
from weir_sim.traces.trace_row import TraceRow

_FIELDS = ("timestamp", "input_length", "output_length", "hash_ids")


class Mooncake:
    """Arrivals, lengths and prefixes; no clients."""

    name = "mooncake"
    granularity = 512
    timed = True

    def matches(self, first_line: str) -> bool:
        """By the fields of its first object."""
        try:
            value = json.loads(first_line)
        except (ValueError, RecursionError):
            return False
        return isinstance(value, dict) and set(_FIELDS) <= value.keys()

    def read(self, path: Path, span: ReadSpan) -> Iterator[TraceRow]:
        """Rows in order. Raises TraceError."""
        with opened(path) as file:
            for line, text in enumerate(file, 1):
                if text.strip():
                    row = _row(path, line, text, self.granularity)
                    if within(row.arrival_s or 0.0, span):
                        yield row


def _row(path: Path, line: int, text: str, granularity: int) -> TraceRow:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path}, line {line}: not a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise TraceError(f"{path}, line {line}: not a JSON object: {text.strip()[:40]!r}")
    prompt = _whole(path, line, value, "input_length", MAX_TOKENS)
    ids = value.get("hash_ids")
    if not isinstance(ids, list) or not all(isinstance(one, int) for one in ids):
        raise bad_field(path, line, "hash_ids", ids, "a list of whole numbers")
    return TraceRow(
        prompt_tokens=prompt,
        output_tokens=_whole(path, line, value, "output_length", MAX_TOKENS),
        arrival_s=_whole(path, line, value, "timestamp", int(MAX_SECONDS * 1000), 0) / 1000,
        # The last piece is cut off by the prompt's end, and no cache holds a part of a piece.
        prefix_ids=tuple(ids[: prompt // granularity]),
    )


def _whole(
    path: Path, line: int, value: dict[str, Any], field: str, most: int, least: int = 1
) -> int:
    number = value.get(field)
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise bad_field(path, line, field, number, f"a whole number, {least} to {most}")
    return number
