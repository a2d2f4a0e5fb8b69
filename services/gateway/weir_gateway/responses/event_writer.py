"""Events of a background response, numbered and kept, once each whatever attempt makes them."""

from collections.abc import Iterable

from weir_gateway.holdings.bounds import Held
from weir_gateway.responses.output_items import Event
from weir_gateway.responses.store import ResponseStore
from weir_gateway.state.state import State

_PAGE = 1_000


class EventWriter:
    """Writes what the attempts before have not.

    An attempt of which the process was lost is made again. As far as its events are those that
    are kept already they are not written twice, so that who reads them sees one answer. Where
    they differ, which an engine of another make may do, `response.in_progress` with an empty
    output says that the answer begins anew.

    Args:
        state, store: where events are kept.
        tenant_id, response_id: whose they are.
        first: number of the first event that attempts make.
    """

    def __init__(
        self, state: State, store: ResponseStore, tenant_id: str, response_id: str, *, first: int
    ) -> None:
        self._state = state
        self._store = store
        self._tenant_id = tenant_id
        self._response_id = response_id
        self._sequence = first
        self._loaded = False
        self._known: list[Event] = []
        self._repeated: list[Event] = []
        self._unwritten: list[Event] = []

    async def write(self, made: Iterable[Event]) -> None:
        """Keeps events that this attempt made next. Raises WeirError(STATE_UNAVAILABLE)."""
        if not self._loaded:
            await self._load()
        for event in made:
            self._add(event)
        if not self._unwritten:
            return
        async with self._state.writing() as connection:
            named = self._tenant_id, self._response_id
            # Of one that was deleted meanwhile nothing may stay behind.
            if await self._store.hold(connection, *named):
                size = await self._store.add_events(connection, *named, self._unwritten)
                # What was accepted is written to its end, whatever the tenant keeps meanwhile.
                change = Held(size=size)
                await self._store.count(connection, self._tenant_id, change, bounded=False)
        self._unwritten = []

    async def _load(self) -> None:
        """Reads what earlier attempts wrote, the latest beginning alone, deltas joined."""
        named = self._tenant_id, self._response_id
        while page := await self._store.events(*named, after=self._sequence - 1, limit=_PAGE):
            for event in page:
                self._sequence = event.pop("sequence_number") + 1
                if event["type"] == "response.in_progress":
                    self._known = []
                if self._known and _continues(self._known[-1], event):
                    self._known[-1]["delta"] += event["delta"]
                else:
                    self._known.append(event)
        self._loaded = True

    def _add(self, event: Event) -> None:
        if not self._known:
            self._repeated = []
            self._number(event)
            return
        known = self._known[0]
        if not _same_place(known, event):
            self._begin_anew(event)
        elif "delta" not in event:
            self._repeated.append(event)
            del self._known[0]
        else:
            self._add_delta(known, event)

    def _add_delta(self, known: Event, event: Event) -> None:
        same = min(len(known["delta"]), len(event["delta"]))
        if known["delta"][:same] != event["delta"][:same]:
            self._begin_anew(event)
            return
        self._repeated.append(event | {"delta": event["delta"][:same]})
        known["delta"] = known["delta"][same:]
        if not known["delta"]:
            del self._known[0]
        if rest := event["delta"][same:]:
            self._add(event | {"delta": rest})

    def _begin_anew(self, event: Event) -> None:
        repeated, self._repeated, self._known = self._repeated, [], []
        for one in [*repeated, event]:
            self._number(one)

    def _number(self, event: Event) -> None:
        self._unwritten.append(event | {"sequence_number": self._sequence})
        self._sequence += 1


def _continues(last: Event, event: Event) -> bool:
    return "delta" in event and _same_place(last, event)


def _same_place(known: Event, event: Event) -> bool:
    places = ("type", "output_index")
    return all(known.get(place) == event.get(place) for place in places)
