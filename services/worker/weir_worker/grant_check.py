"""Whether the scheduler has allowed an attempt."""

from weir.common.v1.lifecycle_pb2 import Grant, SignedGrant
from weir.worker.v1.worker_service_pb2 import GenerationSpec
from weir_core.clock import Clock
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.grants import verify_grant
from weir_core.rpc.leader_epoch import LeaderEpoch


class GrantCheck:
    """Verifies grants of this worker.

    Args:
        worker_id: the worker that a grant must name.
        secret: the cluster secret; None where no grant can be verified.
        clock: grants expire.
        required: whether an attempt without a grant is refused.
        leader: the newest term of an active scheduler; grants of an older one are refused.
    """

    def __init__(
        self,
        worker_id: str,
        secret: bytes | None,
        clock: Clock,
        *,
        required: bool,
        leader: LeaderEpoch | None = None,
    ) -> None:
        self._worker_id = worker_id
        self._secret = secret
        self._clock = clock
        self._required = required
        self._leader = leader or LeaderEpoch()

    def check(self, signed: SignedGrant, spec: GenerationSpec) -> None:
        """Passes if the grant is genuine and allows exactly this spec.

        Raises:
            WeirError: GRANT_INVALID, saying what does not agree; NOT_LEADER when another
                scheduler has replaced the one that granted it.
            InvalidField: max_new_tokens is above what was granted.
        """
        if not signed.grant and not self._required:
            return
        if self._secret is None:
            raise _invalid("this worker has no cluster secret; set WEIR_CLUSTER_TOKEN")
        grant = verify_grant(
            signed, self._secret, worker_id=self._worker_id, now_us=self._clock.now_us()
        )
        _compare(grant, spec)
        self._leader.check(grant.leader_epoch, "the grant")


def _compare(grant: Grant, spec: GenerationSpec) -> None:
    pairs = (
        ("attempt.request_id", grant.attempt.request_id, spec.attempt.request_id),
        ("attempt.number", grant.attempt.number, spec.attempt.number),
        ("tenant_id", grant.tenant_id, spec.tenant_id),
        ("model", grant.model, spec.model),
    )
    for field, granted, asked in pairs:
        if granted != asked:
            # Names the field alone: the values may be another tenant's.
            raise _invalid(f"it is for another {field} than the start")
    answers = max(1, spec.sampling.n)
    if spec.max_new_tokens * answers > grant.max_new_tokens:
        bound = f"at most {grant.max_new_tokens // answers}, as granted"
        raise InvalidField("max_new_tokens", spec.max_new_tokens, bound)


def _invalid(why: str) -> WeirError:
    return WeirError(Reason.GRANT_INVALID, f"the grant was refused: {why}", field="grant")
