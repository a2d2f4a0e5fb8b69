"""What a trigger of KEDA asks for: its metadata, read and checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weir_core.errors import InvalidField
from weir_scheduler.scaling.advisor import Advice
from weir_scheduler.scaling.signals import ScalingSignals

WANTED = "wanted_workers"
_FROM_SIGNALS: dict[str, Callable[[ScalingSignals], float]] = {
    "requests": lambda signals: signals.running + signals.queued,
    "queued_requests": lambda signals: signals.queued,
    "tokens": lambda signals: signals.tokens_in_flight + signals.queued_tokens,
    "queue_time_ms": lambda signals: signals.wait_us / 1_000,
    "kv_use_percent": lambda signals: 100 * (signals.kv_use or 0.0),
}
METRICS = (WANTED, *_FROM_SIGNALS)
_SECRETS = ("secret", "secretFromEnv")
# KEDA passes its own settings of the trigger along with ours.
_OF_KEDA = (
    *("scalerAddress", "enableTLS", "unsafeSsl", "caCert", "tlsCertFile", "tlsClientCert"),
    "tlsClientKey",
)
_KNOWN = ("model", "pool", "metric", "target", *_SECRETS, *_OF_KEDA)


@dataclass(frozen=True, slots=True)
class Trigger:
    """One trigger of a ScaledObject.

    Attributes:
        model: public name.
        pool: empty when the model has a single one.
        metric: one of `METRICS`.
        target: value of the metric that one replica is meant for.
        secret: what it proves itself with; empty for nothing.
    """

    model: str
    pool: str
    metric: str
    target: float
    secret: str

    def value(self, advice: Advice) -> float:
        """The metric now."""
        if self.metric == WANTED:
            return advice.recommendation.workers
        return _FROM_SIGNALS[self.metric](advice.signals)


def read_trigger(metadata: Mapping[str, str]) -> Trigger:
    """Reads `scaler_metadata`. Raises InvalidField, which names the key."""
    for key in metadata:
        if key not in _KNOWN:
            known = ", ".join(_KNOWN[:4])
            raise InvalidField(f"metadata.{key}", metadata[key], f"absent; there are: {known}")
    if not metadata.get("model"):
        raise InvalidField("metadata.model", "", "the name of a model")
    metric = metadata.get("metric", WANTED)
    if metric not in METRICS:
        raise InvalidField("metadata.metric", metric, f"one of {', '.join(METRICS)}")
    return Trigger(
        model=metadata["model"],
        pool=metadata.get("pool", ""),
        metric=metric,
        target=_target(metric, metadata.get("target", "")),
        secret=next((metadata[key] for key in _SECRETS if metadata.get(key)), ""),
    )


def _target(metric: str, text: str) -> float:
    """The recommendation is a number of replicas: its target is 1, and nothing else."""
    if metric == WANTED:
        if text not in ("", "1"):
            raise InvalidField("metadata.target", text, f"1 or absent with metric {WANTED}")
        return 1.0
    try:
        target = float(text)
    except ValueError:
        target = 0.0
    if not 0 < target < 1e12:
        raise InvalidField("metadata.target", text, f"a number above 0 with metric {metric}")
    return target
