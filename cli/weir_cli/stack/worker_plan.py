"""Which workers a local stack has: what each serves, and its share of the machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir_cli.errors import CommandError
from weir_cli.sizes import parse_size
from weir_cli.stack.served_model import ServedModel
from weir_cli.stack.worker_range import WorkerRange

_OPTION = "--kv-memory"
VERSION = "1"
"""Of the weights that are served without a directory that says otherwise."""

Versions = Mapping[str, Mapping[str, str]]
"""Of each model by name: its versions, and the setting `model` of their workers."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """Another engine that computes in the place of the worker's own.

    Attributes:
        url: its base URL, up to /v1, or grpc://host:port.
        model: the model's name there.
    """

    url: str
    model: str


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """One worker.

    Attributes:
        name: of the process.
        model: what it serves.
        version: of it.
        worker_model: where the version's weights are; empty: those of the model.
        threads: compute threads; None: all.
        kv_memory_bytes: memory of its KV cache; None: the worker's default.
        upstream: what computes for it; None: itself.
        spare: started only when the load asks for it.
    """

    name: str
    model: ServedModel
    version: str = VERSION
    worker_model: str = ""
    threads: int | None = None
    kv_memory_bytes: int | None = None
    upstream: Upstream | None = None
    spare: bool = False

    def settings(self) -> dict[str, Any]:
        """Its part of the worker's settings."""
        chosen: dict[str, Any] = {
            "worker_id": self.name,
            "model": self.worker_model or self.model.worker_model,
            "model_name": self.model.name,
            "model_version": self.version,
            "threads": self.threads,
            "kv_memory_bytes": self.kv_memory_bytes,
        }
        if self.upstream is not None:
            chosen |= {"upstream_url": self.upstream.url, "upstream_model": self.upstream.model}
        return {name: value for name, value in chosen.items() if value is not None}


def plan_workers(
    models: Sequence[ServedModel],
    each: WorkerRange,
    *,
    cores: int,
    kv_memory: Sequence[str] = (),
    upstream: Upstream | None = None,
    versions: Versions | None = None,
) -> list[WorkerPlan]:
    """Workers of every model, which share the cores evenly, spare ones included and last.

    Args:
        models: what is served.
        each: how many of a model.
        cores: of the machine.
        kv_memory: `SIZE` for every worker, `MODEL=SIZE` for those of a model.
        upstream: of all of them.
        versions: that get `each` workers; None: one of each model.

    Raises CommandError for a size that is none or names no model.
    """
    shares = _shares([model.name for model in models], kv_memory)
    forms = [
        (model, version, place)
        for model in models
        for version, place in ((versions or {}).get(model.name) or {VERSION: ""}).items()
    ]
    served = [(*form, False) for form in forms for _ in range(each.least)]
    served += [(*form, True) for form in forms for _ in range(each.most - each.least)]
    threads = max(1, cores // len(served)) if len(served) > 1 else None
    names = worker_names(len(served))
    return [
        WorkerPlan(name, model, version, place, threads, shares.get(model.name), upstream, spare)
        for name, (model, version, place, spare) in zip(names, served, strict=True)
    ]


def worker_names(workers: int) -> list[str]:
    """Names of the workers, from `worker-1`."""
    return [f"worker-{number}" for number in range(1, workers + 1)]


def _shares(models: Sequence[str], given: Sequence[str]) -> dict[str, int]:
    shares: dict[str, int] = {}
    for text in sorted(given, key=lambda text: "=" in text):  # those of a model count more
        model, named, size = text.rpartition("=")
        if named and model not in models:
            raise CommandError(f"{_OPTION} {text}: no model {model!r} (there: {', '.join(models)})")
        wanted = parse_size(size, _OPTION)
        shares |= {model: wanted} if named else dict.fromkeys(models, wanted)
    return shares
