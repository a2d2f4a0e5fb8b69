"""Whether the process behind an address has ended is told by its machine alone."""

import socket

import pytest

from weir_gateway.links.liveness import refuses

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_where_nobody_listens_the_process_has_ended(host: str) -> None:
    with socket.socket() as taken:
        # Bound and not listening, so that nobody else is given the port meanwhile.
        taken.bind(("127.0.0.1", 0))
        assert await refuses(f"{host}:{taken.getsockname()[1]}")


async def test_one_that_stands_still_has_not_ended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as standing:
        assert not await refuses(f"127.0.0.1:{standing.getsockname()[1]}")


@pytest.mark.parametrize("address", ["", "nowhere.invalid:7000", "127.0.0.1:none", "[::1"])
async def test_where_nothing_can_be_told_it_has_not_ended(address: str) -> None:
    assert not await refuses(address)
