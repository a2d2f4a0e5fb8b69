"""One version of the directory, as the limiter reads it."""

from collections.abc import Iterable, Mapping

from weir.directory.v1 import directory_pb2
from weir_core.directory import DirectoryIndex, ScopedLimit
from weir_core.errors import InvalidField, Reason, WeirError
from weir_ratelimiter.directory.limits import context_window, to_limit
from weir_ratelimiter.directory.resolution import Resolution
from weir_ratelimiter.domain.limit import Layer, Limit
from weir_ratelimiter.domain.subject import Subject

_MOST_RESOLUTIONS = 100_000


class LimitBook:
    """Resolves subjects to limits. A new version of the directory is a new book.

    Raises:
        WeirError: a limit of the directory is malformed; the former book stays in use.
    """

    def __init__(self, index: DirectoryIndex) -> None:
        self._index = index
        self.version = index.version
        self._cluster = _limits(index.cluster_limits, Layer.CLUSTER)
        self._resolutions: dict[Subject, Resolution] = {}
        self.by_key: Mapping[str, Limit] = _by_unique_key(self._all())
        """Every limit of the directory by its key."""

    def resolve(self, subject: Subject) -> Resolution:
        """Limits and policies that apply to `subject`, in the order of evaluation.

        A user or key that the directory does not know (yet) has no limits of its own; tenant
        and model must be known, or their limits could be walked around.

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
        model = self._index.model(subject.model)
        if model is None or model.name != subject.model:
            raise _unknown(Reason.MODEL_NOT_FOUND, "model", "subject.model", subject.model)

    def _resolve(self, subject: Subject) -> Resolution:
        limits = [
            limit
            for layer in self._layers(subject)
            for limit in layer
            if limit.model in ("", subject.model)
        ]
        policy = self._index.policy(subject.tenant_id)
        return Resolution(
            limits,
            estimate=policy.reserve_policy == directory_pb2.RESERVE_POLICY_ESTIMATE,
            may_owe=policy.extend_policy == directory_pb2.EXTEND_POLICY_DEBT,
            version=self.version,
        )

    def _layers(self, subject: Subject) -> Iterable[tuple[Limit, ...]]:
        tenant, user = subject.tenant_id, subject.user_id
        index = self._index
        yield self._cluster
        yield _limits(index.tenant_limits(tenant), Layer.TENANT, tenant)
        yield _limits(index.user_limits(tenant, user), Layer.USER, tenant, user)
        yield _limits(index.key_limits(subject.api_key_id), Layer.API_KEY, subject.api_key_id)
        yield self._of_model(subject.model)

    def _of_model(self, name: str) -> tuple[Limit, ...]:
        limits = _limits(self._index.model_limits(name), Layer.MODEL, name)
        model = self._index.model(name)
        if model is None or not model.max_context_tokens:
            return limits
        return (context_window(name, model.max_context_tokens), *limits)

    def _all(self) -> Iterable[Limit]:
        index, snapshot = self._index, self._index.snapshot
        yield from self._cluster
        for tenant in snapshot.tenants:
            if tenant.plan_id and index.plan(tenant.plan_id) is None:
                raise InvalidField(f"tenant:{tenant.id}.plan_id", tenant.plan_id, "a known plan")
            yield from _limits(index.tenant_limits(tenant.id), Layer.TENANT, tenant.id)
        for user in snapshot.users:
            owner = (user.tenant_id, user.id)
            yield from _limits(index.user_limits(*owner), Layer.USER, *owner)
        for key in snapshot.api_keys:
            yield from _limits(index.key_limits(key.id), Layer.API_KEY, key.id)
        for model in snapshot.models:
            yield from self._of_model(model.name)


def _by_unique_key(limits: Iterable[Limit]) -> dict[str, Limit]:
    by_key: dict[str, Limit] = {}
    for limit in limits:
        if limit.key in by_key:
            raise InvalidField("limit.id", limit.key, "unique in its owner")
        by_key[limit.key] = limit
    return by_key


def _limits(scoped: Iterable[ScopedLimit], layer: Layer, *owner: str) -> tuple[Limit, ...]:
    return tuple(to_limit(entry.limit, layer, *owner) for entry in scoped)


def _unknown(reason: Reason, what: str, field: str, value: str) -> WeirError:
    return WeirError(reason, f"{what} {value} is not in the directory", field=field)
