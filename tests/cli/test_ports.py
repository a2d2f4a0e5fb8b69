import socket
import sys
from collections.abc import Iterator

import pytest

from weir_cli.errors import CommandError
from weir_cli.stack.ports import HOST, PortClaims
from weir_cli.stack.services import wanted_ports


@pytest.fixture
def claims() -> Iterator[PortClaims]:
    held = PortClaims()
    yield held
    held.release()


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server((HOST, 0)) as server:
        yield server.getsockname()[1]


def test_the_usual_ports_lie_at_fixed_distances() -> None:
    assert dict(wanted_ports(8000, 2)) == {
        "gateway http": 8000,
        "gateway grpc": 8001,
        "ratelimiter": 8002,
        "scheduler": 8003,
        "worker-1": 8010,
        "worker-2": 8011,
        "ratelimiter metrics": 9002,
        "scheduler metrics": 9003,
        "worker-1 metrics": 9010,
        "worker-2 metrics": 9011,
    }


def test_port_0_means_free_ports_everywhere_and_no_number_twice(claims: PortClaims) -> None:
    ports = claims.choose(wanted_ports(0, 8))
    numbers = [port.number for port in ports.values()]
    assert 0 not in numbers
    assert len(set(numbers)) == len(numbers)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ports cannot be kept")
def test_a_chosen_port_is_for_its_server_alone(claims: PortClaims) -> None:
    ports = claims.choose((str(at), 0) for at in range(500))
    numbers = {port.number for port in ports.values()}
    others = [socket.create_server((HOST, 0)) for _ in range(500)]
    given = {other.getsockname()[1] for other in others}
    for other in others:
        other.close()
    assert not numbers & given
    for _ in range(2):
        with socket.create_server((HOST, ports["0"].number)):
            pass
    claims.release()


def test_no_port_is_chosen_twice_where_names_want_the_same(claims: PortClaims) -> None:
    free = claims.choose([("a", 0)])["a"].number
    ports = claims.choose([("b", free), ("c", free)])
    assert len({free, *(port.number for port in ports.values())}) == 3


def test_ports_beyond_the_last_are_free_ones() -> None:
    wanted = dict(wanted_ports(65_535, 1))
    assert (wanted["gateway http"], wanted["gateway grpc"]) == (65_535, 0)


def test_a_taken_port_is_replaced_and_the_reader_can_tell(claims: PortClaims, taken: int) -> None:
    port = claims.choose([("scheduler", taken)])["scheduler"]
    assert (port.wanted, port.number != taken) == (taken, True)
    assert port.address == f"{HOST}:{port.number}"


def test_a_port_that_was_asked_for_is_not_replaced(claims: PortClaims, taken: int) -> None:
    with pytest.raises(CommandError) as caught:
        claims.choose([("gateway http", taken)], required="gateway http")
    assert str(caught.value) == (
        f"cannot listen on {HOST}:{taken}: Address already in use; choose another --port"
    )
