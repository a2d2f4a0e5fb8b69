"""Parameters of a model, resolved model -> tenant -> worker profile."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from weir.directory.v1.directory_pb2 import ModelParameters


@dataclass(frozen=True, slots=True)
class Parameters:
    """Every parameter of one model for one tenant on one worker profile.

    The defaults here are those of the product; `weir.directory.v1.ModelParameters` documents
    units and bounds. 0 in the last two: the scheduler derives them from the others.
    """

    default_max_new_tokens: int = 256
    max_new_tokens: int = 4096
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    alpha_millis: int = 500
    max_batch_size: int = 64
    max_batch_tokens: int = 65_536
    batch_wait_ms: int = 5
    max_concurrent_requests: int = 256
    queue_timeout_ms: int = 30_000
    max_queued_requests: int = 1024
    long_context_threshold: int = 4096
    max_step_tokens: int = 512
    offline_batch_wait_ms: int = 50
    offline_max_batch_tokens: int = 0
    max_running_long: int = 0


OF_WORKER = frozenset(
    {
        "max_batch_size",
        "max_batch_tokens",
        "max_concurrent_requests",
        "max_step_tokens",
        "offline_max_batch_tokens",
        "max_running_long",
    }
)
"""Resolved for a worker and its profile; the others for a request, before it has a worker."""

_DEFAULTS = asdict(Parameters())


def resolve_parameters(
    model: ModelParameters, tenant: Iterable[ModelParameters], model_name: str, profile: str = ""
) -> Parameters:
    """Merges the model's parameters with those of a tenant and of a worker profile.

    Later wins: model, tenant for all models, tenant for this model, and after these, in the
    same order, what each of them says for `profile`.
    """
    mine = [entry for entry in tenant if entry.model in ("", model_name)]
    layers = [model, *sorted(mine, key=lambda entry: entry.model != "")]
    by_profile = [layer.profiles[profile] for layer in layers if profile in layer.profiles]
    merged: dict[str, int | float] = dict(_DEFAULTS)
    for layer in (*layers, *by_profile):
        merged.update(
            {name: getattr(layer, name) for name in _DEFAULTS if layer.HasField(name)}  # type: ignore[arg-type]
        )
    return Parameters(**merged)  # type: ignore[arg-type]
