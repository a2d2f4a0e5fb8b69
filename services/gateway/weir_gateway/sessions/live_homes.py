"""Which workers run turns of a session at this moment."""

from collections.abc import Iterable

from weir_gateway.flow.live_request import LiveRequest


class LiveHomes:
    """Looks through the requests that live here.

    Args:
        requests: see `RequestRecords`.
    """

    def __init__(self, requests: Iterable[LiveRequest]) -> None:
        self._requests = requests

    def any_turns(self) -> bool:
        """Whether turns of any session run here."""
        return any(live.prepared.session is not None for live in self._requests)

    def of(self, tenant_id: str, session_id: str) -> dict[str, str]:
        """Addresses by worker id."""
        return {
            live.facts.worker_id: live.facts.worker_address
            for live in self._requests
            if live.prepared.session is not None
            and live.prepared.session.session_id == session_id
            and live.prepared.subject.tenant_id == tenant_id
            and live.facts.worker_id
        }
