"""What the upstreams' answers mean here, and what they are not asked."""

from collections.abc import Sequence

from weir_core.errors import Reason, WeirError
from weir_worker.engine.events import FinishReason

_FINISHES = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


def finish_of(told: str | None) -> FinishReason | None:
    """The finish reason of an upstream; None if there is none yet.

    Raises:
        WeirError: ENGINE_FAILED for any other than `stop` and `length`.
    """
    if not told:
        return None
    if told not in _FINISHES:
        raise WeirError(
            Reason.ENGINE_FAILED, f"the upstream engine ended with finish reason {told[:32]!r}"
        )
    return _FINISHES[told]


def model_not_there(wanted: str, names: Sequence[str]) -> WeirError:
    """The upstream serves other models."""
    return WeirError(
        Reason.MODEL_NOT_FOUND,
        f"the upstream engine does not serve {wanted!r}; it has "
        f"{', '.join(map(repr, names[:5])) or 'no model'}: set upstream_model",
    )


def refuse_unless(field: str, held: bool) -> None:
    """Refuse what the upstream would ignore. Raises WeirError: UNSUPPORTED_FIELD."""
    if not held:
        raise WeirError(
            Reason.UNSUPPORTED_FIELD,
            f"{field} is not known to the engine that computes for this worker",
            field=field,
        )
