"""Computes prefixes on workers before anybody asks for them."""

from collections.abc import Iterable
from dataclasses import replace

from weir.common.v1.subject_pb2 import RequestClass
from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.ending import cancelled
from weir_gateway.flow.reception import Reception
from weir_gateway.links.fleet_reader import FleetReader
from weir_gateway.prefixes.prefix import Prefix, Warmth

_REQUEST_S = 120.0
_TAKE_S = 30.0


class Warmer:
    """Sends requests of class batch and one token, one to each worker, through the same path as
    any other: they are held to the tenant's limits and charged.

    Args:
        reception: takes them in.
        fleet: which workers there are.
        clock: wall time.
    """

    def __init__(self, reception: Reception, fleet: FleetReader, clock: Clock) -> None:
        self._reception = reception
        self._fleet = fleet
        self._clock = clock

    async def warm(self, caller: Caller, prefix: Prefix) -> list[Warmth]:
        """Computes a prefix on every worker of its models that takes work.

        Raises:
            WeirError: what the first request that failed was refused with; NO_WORKER where no
                worker serves a model.
        """
        ready = await self._fleet.ready()
        warmths = []
        for model in prefix.models:
            workers = {worker for served, worker in ready if served == model}
            if not workers:
                raise WeirError(
                    Reason.NO_WORKER,
                    f"no worker of model {model!r} takes work now; ask for it again later",
                    retry_after_s=5.0,
                )
            warmths += await self.warm_on(caller, prefix, model, workers, among=workers)
        return warmths

    async def warm_on(
        self, caller: Caller, prefix: Prefix, model: str, wanted: Iterable[str], among: set[str]
    ) -> list[Warmth]:
        """Computes it on some workers of a model. Raises WeirError.

        Args:
            caller: is charged.
            prefix: what.
            model: of the workers.
            wanted: where.
            among: all that take work.
        """
        left, avoided = set(wanted), among - set(wanted)
        warmths = []
        while left:
            warmth = await self._once(caller, prefix, model, frozenset(avoided))
            warmths.append(warmth)
            # One that came meanwhile may have run it.
            left -= {warmth.worker_id} if warmth.worker_id in left else {left.pop()}
            avoided.add(warmth.worker_id)
        return warmths

    async def _once(
        self, caller: Caller, prefix: Prefix, model: str, avoided: frozenset[str]
    ) -> Warmth:
        content = prefix.content
        request = replace(
            content.as_request(model),
            request_class=RequestClass.REQUEST_CLASS_BATCH,
            avoided_workers=avoided,
        )
        admission = await self._reception.admit(
            caller, lambda: request, size=content.size, deadline_s=_REQUEST_S
        )
        live = admission.live
        try:
            ending = None
            while ending is None:
                ending = (await live.delivery.take(_TAKE_S)).ending
        finally:
            if not live.ended.done():
                live.stop(cancelled())
        if ending.error is not None:
            raise ending.error
        return Warmth(
            model=model,
            worker_id=live.facts.worker_id,
            time_ms=self._clock.now_ms(),
            prompt_tokens=ending.usage.prompt_tokens,
        )
