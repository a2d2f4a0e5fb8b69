"""`externalscaler.ExternalScaler`: what KEDA asks of a scaler that is no part of it."""

import hmac
import math
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from pydantic import SecretStr

from weir.keda.v1 import external_scaler_pb2 as wire
from weir.keda.v1.external_scaler_pb2_grpc import ExternalScalerServicer
from weir_core.errors import InvalidField, Reason, WeirError
from weir_scheduler.scaling.advisor import Advice
from weir_scheduler.scaling.recommendation import ScalingReason
from weir_scheduler.server.keda.metric import Trigger, read_trigger
from weir_scheduler.server.scaling_loop import ScalingLoop

SERVICE = "externalscaler.ExternalScaler"

_LONGEST_PAUSE_S = 30.0

Context = grpc.aio.ServicerContext[Any, Any]


class KedaServicer(ExternalScalerServicer):
    """Answers from the last judgement; what is not known is an error, on which KEDA does nothing.

    Args:
        scaling: judges.
        secret: that triggers must hold; None: everybody may ask.
        check: raises WeirError while another scheduler is the active one.
    """

    def __init__(
        self, scaling: ScalingLoop, secret: SecretStr | None, check: Callable[[], None]
    ) -> None:
        self._scaling = scaling
        self._secret = None if secret is None else secret.get_secret_value().encode()
        self._check = check

    async def IsActive(  # noqa: N802
        self, request: wire.ScaledObjectRef, context: Context
    ) -> wire.IsActiveResponse:
        """Whether something waits or runs."""
        trigger = self._trigger(request)
        return wire.IsActiveResponse(result=_active(self._known(trigger)))

    async def StreamIsActive(  # noqa: N802
        self, request: wire.ScaledObjectRef, context: Context
    ) -> AsyncIterator[wire.IsActiveResponse]:
        """The same, at once and at every change, until the caller leaves or nothing is known."""
        trigger = self._trigger(request)
        told: bool | None = None
        while True:
            active = _active(self._known(trigger))
            if active is not told:
                told = active
                yield wire.IsActiveResponse(result=active)
            if not await self._scaling.next(_LONGEST_PAUSE_S):
                raise _unknown(trigger)

    async def GetMetricSpec(  # noqa: N802
        self, request: wire.ScaledObjectRef, context: Context
    ) -> wire.GetMetricSpecResponse:
        """The one metric of the trigger, and its target."""
        trigger = self._trigger(request)
        spec = wire.MetricSpec(
            metric_name=trigger.metric,
            target_size=math.ceil(trigger.target),
            target_size_float=trigger.target,
        )
        return wire.GetMetricSpecResponse(metric_specs=[spec])

    async def GetMetrics(  # noqa: N802
        self, request: wire.GetMetricsRequest, context: Context
    ) -> wire.GetMetricsResponse:
        """Its value now."""
        trigger = self._trigger(request.scaled_object_ref)
        if request.metric_name != trigger.metric:
            raise InvalidField("metric_name", request.metric_name, f"{trigger.metric!r}")
        number = trigger.value(self._known(trigger))
        value = wire.MetricValue(
            metric_name=trigger.metric, metric_value=math.ceil(number), metric_value_float=number
        )
        return wire.GetMetricsResponse(metric_values=[value])

    def _trigger(self, request: wire.ScaledObjectRef) -> Trigger:
        trigger = read_trigger(request.scaler_metadata)
        if self._secret is not None and not hmac.compare_digest(
            self._secret, trigger.secret.encode()
        ):
            raise WeirError(
                Reason.API_KEY_INVALID,
                "the trigger's metadata must hold the scheduler's keda_secret, as secretFromEnv",
            )
        return trigger

    def _known(self, trigger: Trigger) -> Advice:
        """Raises WeirError: no such pool, or nothing that can be relied on."""
        self._check()
        found = [one for one in self._scaling.last if one.key.model == trigger.model]
        if not self._scaling.last:
            raise _unknown(trigger)
        if not found:
            raise WeirError(
                Reason.MODEL_NOT_FOUND, f"model {trigger.model!r} is not in the directory"
            )
        names = [one.key.pool for one in found]
        if trigger.pool not in names and (trigger.pool or len(found) > 1):
            raise InvalidField("metadata.pool", trigger.pool, f"one of {', '.join(names)}")
        advice = found[names.index(trigger.pool)] if trigger.pool else found[0]
        if advice.recommendation.reason is ScalingReason.UNKNOWN:
            raise _unknown(trigger)
        return advice


def _active(advice: Advice) -> bool:
    return advice.signals.active or advice.signals.capped > 0


def _unknown(trigger: Trigger) -> WeirError:
    return WeirError(
        Reason.SCHEDULER_UNAVAILABLE,
        f"the load of model {trigger.model!r} is not known yet; ask again",
        retry_after_s=1.0,
    )
