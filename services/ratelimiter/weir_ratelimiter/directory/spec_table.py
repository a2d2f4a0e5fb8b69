"""Every limit of one version of the directory, checked once where it is configured."""

from collections.abc import Iterable, Mapping

from weir.directory.v1 import directory_pb2
from weir_core.directory import DirectoryIndex
from weir_core.errors import InvalidField
from weir_ratelimiter.directory.limits import LimitSpec, check_limit, context_window
from weir_ratelimiter.directory.tenure import Place
from weir_ratelimiter.domain.limit import Kind, Layer, Limit
from weir_ratelimiter.domain.price import FREE, Price

Specs = dict[str, LimitSpec]

_NONE: Specs = {}


class SpecTable:
    """Checked limits by owner. Owners without limits of their own take no room.

    Raises:
        InvalidField, WeirError: a limit is malformed (see `check_limit`), two of one owner have
            the same id, or a tenant names a plan that is not there.
    """

    def __init__(self, index: DirectoryIndex) -> None:
        self._cluster = _checked(index.limits_over_everybody, "cluster")
        self._plans = {plan.id: _checked(plan.limits, f"plan:{plan.id}") for plan in index.plans}
        self._plan_of = {tenant.id: tenant.plan_id for tenant in index.tenants}
        self._check_plans()
        self._tenants = {
            tenant.id: _checked(tenant.limits, f"tenant:{tenant.id}")
            for tenant in index.tenants
            if tenant.limits
        }
        self._users = {
            (user.tenant_id, user.id): _checked(user.limits, f"user:{user.tenant_id}/{user.id}")
            for user in index.users
            if user.limits
        }
        self._keys = {
            key.id: _checked(key.limits, f"api_key:{key.id}")
            for key in index.api_keys
            if key.limits
        }
        self._models = {
            model.name: _checked(model.limits, f"model:{model.name}") for model in index.models
        }
        self._prices = {
            model.name: Price.of(
                f"model:{model.name}.price",
                model.price.input_nanos,
                model.price.cached_input_nanos,
                model.price.output_nanos,
            )
            for model in index.models
            if model.HasField("price")
        }
        self._windows = {
            model.name: context_window(model.name, model.max_context_tokens)
            for model in index.models
            if model.max_context_tokens
        }

    def cluster(self) -> list[Limit]:
        """Limits over everybody."""
        return [spec.of(Layer.CLUSTER) for spec in self._cluster.values()]

    def tenant(self, tenant_id: str) -> list[Limit]:
        """The plan's limits; the tenant's own replace those of the same id and add others."""
        own = self._tenants.get(tenant_id, _NONE)
        place = f"plan {self._plan_of.get(tenant_id)}"
        return [
            spec.of(Layer.TENANT, tenant_id, place="" if limit_id in own else place)
            for limit_id, spec in (self._plan(tenant_id) | own).items()
        ]

    def user(self, tenant_id: str, user_id: str) -> list[Limit]:
        """Limits of one user of one tenant."""
        specs = self._users.get((tenant_id, user_id), _NONE)
        return [spec.of(Layer.USER, tenant_id, user_id) for spec in specs.values()]

    def api_key(self, key_id: str) -> list[Limit]:
        """Limits of one key."""
        specs = self._keys.get(key_id, _NONE)
        return [spec.of(Layer.API_KEY, key_id) for spec in specs.values()]

    def model(self, name: str) -> list[Limit]:
        """The context window of a model, and its limits over all tenants."""
        window = [self._windows[name]] if name in self._windows else []
        specs = self._models.get(name, _NONE)
        return [*window, *(spec.of(Layer.MODEL, name) for spec in specs.values())]

    def price(self, model: str) -> Price:
        """What tokens of a model cost."""
        return self._prices.get(model, FREE)

    @property
    def plan_of(self) -> Mapping[str, str]:
        """The plan of each tenant."""
        return self._plan_of

    def budgets(self) -> Mapping[Place, object]:
        """What the budgets of each place count; places without any are left out."""
        counted: dict[Place, object] = {(Layer.CLUSTER.label,): _counted(self._cluster)}
        counted |= {("plan", plan): _counted(specs) for plan, specs in self._plans.items()}
        for layer, by_owner in (
            (Layer.TENANT, self._tenants),
            (Layer.API_KEY, self._keys),
            (Layer.MODEL, self._models),
        ):
            counted |= {(layer.label, owner): _counted(s) for owner, s in by_owner.items()}
        counted |= {(Layer.USER.label, *user): _counted(s) for user, s in self._users.items()}
        return {place: what for place, what in counted.items() if what}

    def _plan(self, tenant_id: str) -> Specs:
        return self._plans.get(self._plan_of.get(tenant_id, ""), _NONE)

    def _check_plans(self) -> None:
        for tenant_id, plan_id in self._plan_of.items():
            if plan_id and plan_id not in self._plans:
                raise InvalidField(f"tenant:{tenant_id}.plan_id", plan_id, "a known plan")


def _counted(specs: Specs) -> frozenset[object]:
    budgets = (spec for spec in specs.values() if spec.kind is Kind.WINDOW)
    return frozenset(
        (spec.id, spec.resource, spec.model, spec.calendar, spec.shadow) for spec in budgets
    )


def _checked(limits: Iterable[directory_pb2.Limit], where: str) -> Specs:
    by_id: Specs = {}
    for configured in limits:
        if configured.id in by_id:
            raise InvalidField(f"{where}.limits.id", configured.id, "unique in its owner")
        by_id[configured.id] = check_limit(configured, where)
    return by_id
