"""Models, told to a person."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weir_cli.output import table
from weir_cli.sizes import size_text
from weir_worker.models.summary import ModelSummary

_HEADS = ("NAME", "ARCHITECTURE", "PARAMETERS", "DISK", "STORED AS", "CONTEXT")


def list_text(models: Sequence[ModelSummary], home: Path) -> str:
    """A table, and a line for each folder that is no sound model."""
    if not models:
        return f"no models in {home}; `weir models pull` brings one"
    rows = [
        (
            model.name,
            model.architecture,
            count_text(model.parameters),
            size_text(model.disk_bytes),
            model.dtype,
            str(model.context),
        )
        for model in models
        if not model.problem
    ]
    problems = [f"{model.name}: {model.problem}" for model in models if model.problem]
    lines = [table([_HEADS, *rows], right=(2, 3, 5))] if rows else []
    return "\n".join([*lines, *problems])


def count_text(count: int) -> str:
    """Such as `134.5 M`."""
    if count >= 1_000_000_000:
        return f"{count / 1e9:.1f} B"
    return f"{count / 1e6:.1f} M" if count >= 100_000 else str(count)


def details_text(details: Mapping[str, Any]) -> str:
    """A line for each fact, then the memory that it takes."""
    names = {name: _label(name) for name in details if name != "memory"}
    width = max(map(len, names.values()))
    lines = [f"{shown:<{width}}  {_value(name, details[name])}" for name, shown in names.items()]
    return "\n".join([*lines, *_memory_lines(details)])


def _value(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no (completions only)"
    if name == "parameters":
        return count_text(value)
    if name.endswith("bytes") or name == "kv_bytes_per_token":
        return size_text(value)
    if name == "windows":
        return ", ".join(f"{layers} layers see {window}" for window, layers in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _memory_lines(details: Mapping[str, Any]) -> list[str]:
    memory = details.get("memory")
    if memory is None:
        return []
    rows = [("FULL CONTEXTS", "KV FP32", "WITH FP32 WEIGHTS", "WITH INT8 WEIGHTS")]
    for contexts, kv in memory["kv_fp32_bytes"].items():
        totals = (kv + memory[f"weights_{kind}_bytes"] for kind in ("fp32", "int8"))
        rows.append((contexts, size_text(kv), *map(size_text, totals)))
    title = f"memory, estimated (contexts of {details['context']} tokens; half in half precision):"
    return ["", title, table(rows, right=(0, 1, 2, 3))]


def _label(name: str) -> str:
    return {"disk_bytes": "on disk"}.get(name, name.replace("_", " "))
