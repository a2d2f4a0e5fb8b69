import asyncio
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry

from weir_core.errors import Reason, WeirError
from weir_core.telemetry.tracing import Tracing
from weir_gateway.flow.unheard import Call, Unheard
from weir_gateway.metrics import GatewayMetrics


class Limiter:
    """Hears calls or not; remembers which were made."""

    def __init__(self) -> None:
        self.away = True
        self.heard: list[str] = []
        self.asked = 0

    def call(self, name: str, *, lasts_s: float = 60.0) -> Call:
        return Call(name, self._send(name), asyncio.get_running_loop().time() + lasts_s)

    def _send(self, name: str) -> Callable[[], Awaitable[None]]:
        async def send() -> None:
            self.asked += 1
            if self.away or name == "poison":
                raise WeirError(Reason.LIMITER_UNAVAILABLE, "away")
            if name == "bad":
                raise WeirError(Reason.RESERVATION_RECORD_INVALID, "no such record")
            self.heard.append(name)

        return send


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def given_up(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("weir_gateway_unsettled_total")


async def test_all_are_heard_in_order_once_somebody_hears(registry: CollectorRegistry) -> None:
    limiter, unheard = Limiter(), Unheard(GatewayMetrics(registry), Tracing("gateway"))
    for number in range(100):
        unheard.add(limiter.call(f"{number:03}"))
    while not limiter.asked:
        await asyncio.sleep(0)
    assert limiter.asked <= 32
    assert registry.get_sample_value("weir_gateway_unheard_calls") == 100
    limiter.away = False
    async with asyncio.timeout(10):
        await unheard.drain()
    assert sorted(limiter.heard) == [f"{number:03}" for number in range(100)]
    assert (len(unheard), given_up(registry)) == (0, 0)
    assert registry.get_sample_value("weir_gateway_unheard_calls") == 0


async def test_one_that_is_never_heard_holds_up_nobody(registry: CollectorRegistry) -> None:
    limiter, unheard = Limiter(), Unheard(GatewayMetrics(registry), Tracing("gateway"))
    limiter.away = False
    unheard.add(limiter.call("poison", lasts_s=0.2))
    for number in range(100):
        unheard.add(limiter.call(f"{number}"))
    unheard.add(limiter.call("bad"))
    async with asyncio.timeout(10):
        await unheard.drain()
    assert len(limiter.heard) == 100
    assert given_up(registry) == 2


async def test_what_is_too_much_or_too_late_is_left_to_the_sweep(
    registry: CollectorRegistry,
) -> None:
    limiter, unheard = Limiter(), Unheard(GatewayMetrics(registry), Tracing("gateway"), most=2)
    for name in ("a", "b", "c"):
        unheard.add(limiter.call(name))
    assert (len(unheard), given_up(registry)) == (2, 1)
    await unheard.stop(1.0)
    assert (len(unheard), given_up(registry)) == (0, 3)


async def test_a_stop_tries_once_more(registry: CollectorRegistry) -> None:
    limiter, unheard = Limiter(), Unheard(GatewayMetrics(registry), Tracing("gateway"))
    unheard.add(limiter.call("a"))
    limiter.away = False
    await unheard.stop(5.0)
    assert limiter.heard == ["a"]
    assert given_up(registry) == 0
