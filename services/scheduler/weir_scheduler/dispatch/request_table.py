"""Every request that the scheduler is responsible for."""

from collections.abc import Iterator

from weir_scheduler.dispatch.request_record import RequestRecord


class RequestTable:
    """Requests by id and by gateway."""

    def __init__(self) -> None:
        self._requests: dict[str, RequestRecord] = {}
        self._by_gateway: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[RequestRecord]:
        return iter(self._requests.values())

    def add(self, record: RequestRecord) -> None:
        """Adds a request. Raises ValueError when its id is taken."""
        request_id = record.entry.request_id
        if request_id in self._requests:
            raise ValueError(f"request {request_id} exists already")
        self._requests[request_id] = record
        self._by_gateway.setdefault(record.gateway, set()).add(request_id)

    def remove(self, record: RequestRecord) -> None:
        """Forgets a request. Raises KeyError when it is unknown."""
        del self._requests[record.entry.request_id]
        of_gateway = self._by_gateway[record.gateway]
        of_gateway.discard(record.entry.request_id)
        if not of_gateway:
            del self._by_gateway[record.gateway]

    def get(self, request_id: str) -> RequestRecord | None:
        """The request of that id."""
        return self._requests.get(request_id)

    def owned(self, gateway: str, request_id: str) -> RequestRecord | None:
        """The request of that id, if it came over that gateway's stream."""
        record = self._requests.get(request_id)
        return record if record is not None and record.gateway == gateway else None

    def gateways(self) -> list[str]:
        """Gateways that have requests here."""
        return list(self._by_gateway)

    def of_gateway(self, gateway: str) -> list[RequestRecord]:
        """Requests of one gateway's stream."""
        return [self._requests[request_id] for request_id in self._by_gateway.get(gateway, ())]
