"""What becomes of requests that run when the access of their key ends."""

from weir.directory.v1.directory_pb2 import OnRevoke, Policy
from weir_core.directory import DirectoryIndex
from weir_core.errors import Reason, WeirError
from weir_gateway.caller.authenticator import Authenticator
from weir_gateway.caller.caller import Caller
from weir_gateway.directory.follower import Directory
from weir_gateway.flow.ending import access_ended
from weir_gateway.flow.request_records import RequestRecords


class Revocation:
    """Looks at every living request when the directory changes.

    Args:
        directory: followed.
        authenticator: says who is still welcome.
        records: the living requests.
        end_streams: what holds for tenants whose policy says nothing.
    """

    def __init__(
        self,
        directory: Directory,
        authenticator: Authenticator,
        records: RequestRecords,
        *,
        end_streams: bool,
    ) -> None:
        self._directory = directory
        self._authenticator = authenticator
        self._records = records
        self._end_streams = end_streams

    def start(self) -> None:
        """From now on."""
        self._directory.on_change(self._changed)

    def _changed(self, index: DirectoryIndex) -> None:
        for live in self._records:
            caller = live.prepared.caller
            try:
                self._authenticator.check_standing(caller)
            except WeirError as error:
                # A key that expires was not taken away: what it began may end.
                if error.reason is not Reason.API_KEY_EXPIRED and self._ends(index, caller):
                    live.stop(access_ended(error))

    def _ends(self, index: DirectoryIndex, caller: Caller) -> bool:
        known = index.tenant(caller.tenant_id) is not None
        # A tenant that is gone has the policy that it had.
        policy: Policy = index.policy(caller.tenant_id) if known else caller.policy
        if policy.on_revoke == OnRevoke.ON_REVOKE_UNSPECIFIED:
            return self._end_streams
        return policy.on_revoke == OnRevoke.ON_REVOKE_END_STREAMS
