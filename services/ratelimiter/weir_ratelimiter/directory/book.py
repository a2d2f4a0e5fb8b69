"""One version of the directory, as the limiter reads it."""

import msgspec

from weir.directory.v1 import directory_pb2
from weir_core.directory import DirectoryIndex
from weir_core.errors import InvalidField, Reason, WeirError
from weir_ratelimiter.directory.resolution import Resolution
from weir_ratelimiter.directory.spec_table import SpecTable
from weir_ratelimiter.domain.subject import Subject

_MOST_RESOLUTIONS = 100_000


class LimitBook:
    """Resolves subjects to limits. A new version of the directory is a new book.

    Attributes:
        version: of the directory.
        budgets: what the budgets of each place count, see `Tenure`.
        plan_of: the plan of each tenant.

    Raises:
        WeirError: a limit of the directory is malformed; the former book stays in use.
    """

    def __init__(self, index: DirectoryIndex) -> None:
        self._index = index
        self.version = index.version
        self._specs = SpecTable(index)
        self.budgets = self._specs.budgets()
        self.plan_of = self._specs.plan_of
        self._resolutions: dict[Subject, Resolution] = {}

    def resolve(self, subject: Subject) -> Resolution:
        """Limits and policies that apply to `subject`, in the order of evaluation.

        A user or key that the directory does not know (yet) has no limits of its own; tenant
        and model must be known, or their limits could be walked around. Without a model there
        are none of models.

        Raises:
            WeirError: NOT_FOUND, MODEL_NOT_FOUND, TENANT_SUSPENDED or API_KEY_REVOKED.
        """
        found = self._resolutions.get(subject)
        if found is None:
            self._check_open(subject)
            found = self._resolve(subject)
            if len(self._resolutions) >= _MOST_RESOLUTIONS:
                self._resolutions.clear()
            self._resolutions[subject] = found
        return found

    def resolve_for_ending(self, subject: Subject) -> Resolution:
        """As `resolve`, for what began when its tenant, key and model were still good."""
        found = self._resolutions.get(subject)
        return self._resolve(subject) if found is None else found

    def has_tenant(self, tenant_id: str) -> bool:
        """Whether the directory has a tenant."""
        return self._index.tenant(tenant_id) is not None

    def canonical(self, subject: Subject) -> Subject:
        """The subject by the name of its model, where it gives an alias."""
        model = self._index.model(subject.model)
        return subject if model is None else msgspec.structs.replace(subject, model=model.name)

    def kv_quota(self, tenant_id: str) -> int:
        """Tokens of KV cache that a tenant holds at once on one worker; 0: no bound."""
        return self._index.policy(tenant_id).kv.max_tokens

    def check_known(self, subject: Subject) -> None:
        """Check that everything which `subject` names is there, so that no slip of the pen is
        told of limits that nobody has.

        Raises:
            WeirError: NOT_FOUND or MODEL_NOT_FOUND, with the field. A key of another tenant is
                as unknown as one of nobody.
        """
        index, tenant_id = self._index, subject.tenant_id
        if index.tenant(tenant_id) is None:
            raise _unknown(Reason.NOT_FOUND, "tenant", "subject.tenant_id", tenant_id)
        if subject.user_id and index.user(tenant_id, subject.user_id) is None:
            what = f"tenant {tenant_id}'s user"
            raise _unknown(Reason.NOT_FOUND, what, "subject.user_id", subject.user_id)
        key = index.key(subject.api_key_id)
        if subject.api_key_id and (key is None or key.tenant_id != tenant_id):
            what = f"tenant {tenant_id}'s API key"
            raise _unknown(Reason.NOT_FOUND, what, "subject.api_key_id", subject.api_key_id)
        self._check_model(subject.model)

    def _check_open(self, subject: Subject) -> None:
        tenant = self._index.tenant(subject.tenant_id)
        if tenant is None:
            raise _unknown(Reason.NOT_FOUND, "tenant", "subject.tenant_id", subject.tenant_id)
        if tenant.suspended:
            raise WeirError(
                Reason.TENANT_SUSPENDED,
                f"tenant {subject.tenant_id} is suspended",
                field="subject.tenant_id",
            )
        key = self._index.key(subject.api_key_id)
        if key is not None and key.tenant_id != subject.tenant_id:
            bound = f"a key of tenant {subject.tenant_id}"
            raise InvalidField("subject.api_key_id", subject.api_key_id, bound)
        if key is not None and key.revoked:
            raise WeirError(
                Reason.API_KEY_REVOKED,
                f"API key {subject.api_key_id} is revoked",
                field="subject.api_key_id",
            )
        self._check_model(subject.model)

    def _check_model(self, name: str) -> None:
        model = self._index.model(name)
        if name and model is None:
            raise _unknown(Reason.MODEL_NOT_FOUND, "model", "subject.model", name)
        if model is not None and model.name != name:
            told = f"{name} is an alias here; the model's name is {model.name}"
            raise WeirError(Reason.MODEL_NOT_FOUND, told, field="subject.model")

    def _resolve(self, subject: Subject) -> Resolution:
        specs, tenant = self._specs, subject.tenant_id
        limits = [
            *specs.cluster(),
            *specs.tenant(tenant),
            *specs.user(tenant, subject.user_id),
            *specs.api_key(subject.api_key_id),
            *specs.model(subject.model),
        ]
        policy = self._index.policy(subject.tenant_id)
        return Resolution(
            [limit for limit in limits if limit.model in ("", subject.model)],
            estimate=policy.reserve_policy == directory_pb2.RESERVE_POLICY_ESTIMATE,
            may_owe=policy.extend_policy == directory_pb2.EXTEND_POLICY_DEBT,
            version=self.version,
            price=specs.price(subject.model),
        )


def _unknown(reason: Reason, what: str, field: str, value: str) -> WeirError:
    return WeirError(reason, f"{what} {value} is not in the directory", field=field)
