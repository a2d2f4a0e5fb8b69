"""Which of several schedulers is asked next, and which is not listened to."""

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from weir_core.errors import Reason, WeirError
from weir_core.errors.startup import StartupError
from weir_core.rpc.leader_channels import LeaderChannels
from weir_core.rpc.leader_epoch import LeaderEpoch

A, B, C = (f"127.0.0.1:{port}" for port in (1, 2, 3))
Opened = Callable[..., LeaderChannels]


@pytest_asyncio.fixture
async def opened() -> AsyncIterator[Opened]:
    made: list[LeaderChannels] = []

    def open_all(*addresses: str) -> LeaderChannels:
        joined = ", ".join(addresses)
        made.append(LeaderChannels(joined, name="scheduler", knob="scheduler_address", token=None))
        return made[-1]

    yield open_all
    for channels in made:
        await channels.close()


def standby(leader: str = "") -> WeirError:
    metadata = {"leader": leader} if leader else {}
    return WeirError(Reason.NOT_LEADER, "this one stands by", metadata=metadata)


def gone() -> WeirError:
    return WeirError(Reason.SCHEDULER_UNAVAILABLE, "nobody answers")


def tried(channels: LeaderChannels, *errors: WeirError) -> list[str]:
    """Addresses in the order in which they are tried, while these errors come."""
    order = [channels.address]
    for error in errors:
        channels.lost(error)
        order.append(channels.address)
    return order


async def test_the_one_that_a_standby_names_is_asked_next(opened: Opened) -> None:
    assert tried(opened(A, B, C), standby(C)) == [A, C]


async def test_without_a_hint_they_are_asked_in_turn(opened: Opened) -> None:
    assert tried(opened(A, B, C), gone(), standby(), gone(), gone()) == [A, B, C, A, B]


async def test_a_dead_leader_that_is_still_named_hides_nobody(opened: Opened) -> None:
    """Standbys name it until its lease has ended; the one that took over is found."""
    assert tried(opened(A, B, C), gone(), standby(A), standby(A), gone()) == [A, B, C, A, B]


async def test_a_hint_is_followed_anew_after_a_success(opened: Opened) -> None:
    channels = opened(A, B)
    assert tried(channels, gone()) == [A, B]
    channels.answered()
    assert tried(channels, standby(A)) == [B, A]


async def test_only_addresses_of_the_list_are_ever_called(opened: Opened) -> None:
    """A hint from outside it would be sent the cluster secret."""
    assert tried(opened(A, B), standby("attacker.example:1")) == [A, B]


async def test_a_single_scheduler_is_asked_again_and_keeps_the_default_pauses(
    opened: Opened,
) -> None:
    channels = opened(A)
    assert tried(channels, gone(), standby(), standby(A)) == [A, A, A, A]
    assert channels.backoff() is None
    assert opened(A, B).backoff() is not None


@pytest.mark.parametrize("addresses", ["", "host", f"{A},", f"{A},{A}", f"{A},host:x"])
async def test_bad_addresses_are_refused_by_their_setting(opened: Opened, addresses: str) -> None:
    with pytest.raises(StartupError, match="scheduler_address"):
        opened(addresses)


def test_an_older_term_is_refused_and_none_is_not() -> None:
    leader = LeaderEpoch()
    leader.check(0, "the grant")
    leader.check(7, "the grant")
    leader.check(7, "the grant")
    leader.check(0, "the grant")
    with pytest.raises(WeirError, match="the grant is of the scheduler of term 6") as caught:
        leader.check(6, "the grant")
    assert caught.value.reason is Reason.NOT_LEADER
    leader.check(8, "the grant")
    assert leader.newest == 8
