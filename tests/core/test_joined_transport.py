"""The head of a response leaves together with the body."""

import asyncio
from typing import cast

import pytest

from weir_core.process.joined_transport import JoinedTransport


class _Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


@pytest.fixture
def below() -> _Transport:
    return _Transport()


def _joined(below: _Transport) -> JoinedTransport:
    return JoinedTransport(cast("asyncio.Transport", below), asyncio.get_running_loop())


async def test_head_and_body_are_one_write(below: _Transport) -> None:
    transport = _joined(below)
    for _ in range(2):
        transport.hold()
        transport.write(b"head ")
        transport.write(b"body")
    assert below.written == [b"head body", b"head body"]
    await asyncio.sleep(0)
    assert below.written == [b"head body", b"head body"]


async def test_a_head_alone_leaves_in_the_next_turn(below: _Transport) -> None:
    transport = _joined(below)
    transport.hold()
    transport.write(b"head")
    assert below.written == []
    await asyncio.sleep(0)
    assert below.written == [b"head"]
    transport.write(b"body")
    assert below.written == [b"head", b"body"]


async def test_what_is_held_is_sent_before_the_end(below: _Transport) -> None:
    transport = _joined(below)
    transport.hold()
    transport.write(b"head")
    transport.close()
    assert below.written == [b"head"]
    assert transport.is_closing()


async def test_nothing_is_written_to_a_connection_that_was_given_up(below: _Transport) -> None:
    transport = _joined(below)
    transport.hold()
    transport.write(b"head")
    below.close()
    await asyncio.sleep(0)
    assert below.written == []
