"""Events of an answer that is made again after its process was lost."""

from typing import Any

import pytest

from weir_gateway.responses.event_writer import EventWriter
from weir_gateway.responses.store import ResponseStore, StoredResponse
from weir_gateway.state.state import State

pytestmark = pytest.mark.asyncio
FIRST = 2
RESPONSE = f"resp_{1:032x}"


@pytest.fixture(autouse=True)
async def kept_response(state: State) -> None:
    stored = StoredResponse(
        tenant_id="acme",
        id=RESPONSE,
        created_ms=1,
        expires_ms=10,
        chain_id=RESPONSE,
        background=True,
        response={"status": "queued"},
        items=[],
    )
    await ResponseStore(state).add(stored)


def begin() -> dict[str, Any]:
    return {"type": "response.in_progress", "response": {"output": []}}


def delta(text: str, index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": index, "delta": text}


def done(index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index}


def writer_of(state: State) -> EventWriter:
    return EventWriter(state, ResponseStore(state), "acme", RESPONSE, first=FIRST)


async def kept(state: State) -> list[tuple[int, str]]:
    events = await ResponseStore(state).events("acme", RESPONSE, after=-1, limit=100)
    return [(event["sequence_number"], event.get("delta", event["type"])) for event in events]


async def test_what_was_written_is_not_written_again(state: State) -> None:
    first = writer_of(state)
    await first.write([begin(), delta("He")])
    await first.write([delta("ll")])
    second = writer_of(state)
    # Another attempt gets its text in other pieces.
    await second.write([begin(), delta("H"), delta("ello "), delta("you"), done()])
    assert await kept(state) == [
        (2, "response.in_progress"),
        (3, "He"),
        (4, "ll"),
        (5, "o "),
        (6, "you"),
        (7, "response.output_item.done"),
    ]


async def test_an_answer_that_is_all_there_adds_nothing(state: State) -> None:
    events = [begin(), delta("a"), delta("b"), done(), delta("c", 1), done(1)]
    await writer_of(state).write(events)
    before = await kept(state)
    again = writer_of(state)
    for event in events:
        await again.write([event])
    assert await kept(state) == before


async def test_another_answer_begins_anew(state: State) -> None:
    await writer_of(state).write([begin(), delta("Hello")])
    other = writer_of(state)
    await other.write([begin(), delta("He")])
    await other.write([delta("y!"), done()])
    assert await kept(state) == [
        (2, "response.in_progress"),
        (3, "Hello"),
        (4, "response.in_progress"),
        (5, "He"),
        (6, "y!"),
        (7, "response.output_item.done"),
    ]
    # The latest beginning counts for those that follow.
    third = writer_of(state)
    await third.write([begin(), delta("Hey!"), done(), delta("more", 1)])
    assert (await kept(state))[-1] == (8, "more")
    assert len(await kept(state)) == 7


async def test_nothing_stays_of_a_response_that_was_deleted_meanwhile(state: State) -> None:
    writer = writer_of(state)
    await writer.write([begin(), delta("Hel")])
    await ResponseStore(state).delete("acme", RESPONSE)
    await writer.write([delta("lo"), done()])
    await writer_of(state).write([begin(), delta("Hello"), done()])
    assert await kept(state) == []
