"""What a fleet of clients does, and what became of it; plain data that goes between processes."""

from collections.abc import Iterable, Sequence

import msgspec

OPEN_END = 2**63 - 1
STORE_TIMEOUT_S = 1.5


class Who(msgspec.Struct, frozen=True):
    """Subject of the requests of a race."""

    tenant: str
    user: str = "bob"
    key: str = ""
    model: str = "m"


class Race(msgspec.Struct, frozen=True):
    """Requests of all clients for one subject.

    Attributes:
        name: prefix of the request ids.
        attempts: requests of each client, all at once.
        most_tokens: largest prompt and largest output; 1 makes every request the same.
        hold_ms: longest time between an admission and its end.
    """

    name: str
    who: Who
    attempts: int
    most_tokens: int = 1
    hold_ms: int = 5


class Row(msgspec.Struct, frozen=True):
    """What a client knows of one request that was admitted.

    Attributes:
        admitted_ns, ended_ns: from the answer of Reserve to before the first Settle or Refund,
            on the clock that all processes of the machine share.
        requests, prompt, completion: what it is to be charged.
    """

    race: str
    request_id: str
    reservation_id: str
    admitted_ns: int
    ended_ns: int
    requests: int
    prompt: int
    completion: int

    @property
    def tokens(self) -> int:
        return self.prompt + self.completion


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What one process of the fleet is told.

    Attributes:
        token: the cluster secret.
        member: number of the process.
        races: what the clients do, one race after the other.
        addresses: of ratelimiters; the clients share them out.
        store: instead, a store for a limiter in each process, with `directory`, a snapshot.
        store_timeout_s: of one answer of the store.
        give_up_s: longest time that one call is repeated for.
    """

    token: str
    member: int
    clients: int
    races: Sequence[Race]
    seed: int
    addresses: Sequence[str] = ()
    store: str = ""
    store_timeout_s: float = STORE_TIMEOUT_S
    directory: bytes = b""
    give_up_s: float = 60.0


class Report(msgspec.Struct):
    """What one process of the fleet saw."""

    rows: list[Row] = msgspec.field(default_factory=list)
    refused: dict[str, int] = msgspec.field(default_factory=dict)
    repeated: int = 0
    """Calls that got no answer and were made again."""
    faults: list[str] = msgspec.field(default_factory=list)
    """Answers that break a promise of the account."""


def held_for_ever(row: Row) -> tuple[int, int]:
    """When a request surely held its units of a bucket or window: what is charged stays."""
    return row.admitted_ns, OPEN_END if row.requests else row.ended_ns


def held_until_end(row: Row) -> tuple[int, int]:
    """When a request surely held its lease."""
    return row.admitted_ns, row.ended_ns


def most_at_once(intervals: Iterable[tuple[int, int]]) -> int:
    """Largest number of intervals that overlap; an interval holds its first moment alone."""
    edges = [edge for start, end in intervals for edge in ((start, 1), (end, -1))]
    most = held = 0
    for _, step in sorted(edges):
        held += step
        most = max(most, held)
    return most
