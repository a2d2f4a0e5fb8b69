"""What is valid in a directory file and still rarely meant."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from weir_core.directory.parameters import OF_WORKER
from weir_core.errors.refusal import counted
from weir_gateway.directory.document import Document, ModelEntry, PlanEntry
from weir_gateway.directory.entries import CONTEXT, COST, IN_FLIGHT, LimitEntry, ParameterEntry
from weir_gateway.directory.file import shipped_plans
from weir_gateway.directory.longest_request import longest_request, owners_with_bounds
from weir_gateway.directory.owner import Owner, owner_of

_PROMPT = ("tokens", "input_tokens", IN_FLIGHT)
_REMEDY = "raise its `{}`, or bound requests with a limit of `context_tokens`"


@dataclass(frozen=True, slots=True)
class Advice:
    """One warning about one entry."""

    owner: Owner
    message: str

    def __str__(self) -> str:
        return f"{self.owner.name}: {self.message}"


def advise(document: Document) -> list[Advice]:
    """Warnings about entries of a checked document, by kind and in its order."""
    used = {tenant.plan for tenant in document.tenants}
    idle = shipped_plans() - used
    plans = [plan for plan in document.plans if plan.id not in idle]
    found = [advice for plan in plans for advice in _of_plan(plan, used)]
    passed_over = {owner_of("plan", name) for name in idle}
    for owner, limits, bounds in owners_with_bounds(document):
        of_one_model = [model for model in document.models if owner == _owner_of_model(model)]
        models = of_one_model or document.models
        for index, limit in enumerate(() if owner in passed_over else limits):
            of_limit = owner.limit(index, limit)
            found.extend(Advice(of_limit, text) for text in _of_limit(limit, bounds, models))
    found += _of_parameters(document)
    return [*found, *_of_fallbacks(document), *_of_tenants(document)]


def _of_plan(plan: PlanEntry, used: Collection[str]) -> Iterator[Advice]:
    owner = owner_of("plan", plan.id)
    enforced = [limit for limit in plan.limits if not limit.shadow and limit.model is None]
    if not any(limit.resource == "concurrency" for limit in enforced):
        yield Advice(owner, "it has no limit of `concurrency`: one tenant can take every place")
    if not any(limit.resource == "tokens" and limit.rate for limit in enforced):
        yield Advice(
            owner,
            "it has no limit of `tokens` with a rate: nothing bounds what one tenant uses "
            "(weights share only what several wait for at once)",
        )
    if plan.id not in used:
        yield Advice(owner, "no tenant is on it")


def _owner_of_model(model: ModelEntry) -> Owner:
    return owner_of("model", model.name)


def _of_limit(
    limit: LimitEntry, bounds: Sequence[LimitEntry], served: Sequence[ModelEntry]
) -> Iterator[str]:
    if limit.shadow:
        yield "it is a shadow: counted and reported, it refuses nobody"
    if _capacity(limit) == 0:
        yield "it is 0: it refuses every request"
        return
    models = [model for model in served if limit.model in (None, model.name)]
    if not models:
        return
    if limit.resource in CONTEXT:
        yield from _of_context(limit, models)
    elif limit.resource == COST:
        yield from _of_cost(limit, bounds, models)
    elif limit.resource in _PROMPT:
        yield from _of_tokens(limit, bounds, models)


def _of_context(limit: LimitEntry, models: Sequence[ModelEntry]) -> Iterator[str]:
    longest = max(model.max_context for model in models)
    if _capacity(limit) > longest:
        yield f"it bounds nothing: no model that it applies to has more than {longest} tokens"


def _of_cost(
    limit: LimitEntry, bounds: Sequence[LimitEntry], models: Sequence[ModelEntry]
) -> Iterator[str]:
    if all(model.price is None for model in models):
        yield "it counts nothing: no model that it applies to has a `price`"
        return
    most, name = max((_dearest(model, bounds), model.name) for model in models)
    if most > _capacity(limit):
        yield (
            f"the longest request to model {name!r} can cost {counted(most, COST)} "
            f"and never fits in {counted(_capacity(limit), COST)}; {_REMEDY.format('limit')}"
        )


def _of_tokens(
    limit: LimitEntry, bounds: Sequence[LimitEntry], models: Sequence[ModelEntry]
) -> Iterator[str]:
    capacity = _capacity(limit)
    longest, name = max((longest_request(model, bounds), model.name) for model in models)
    if longest > capacity:
        yield (
            f"it never holds more than {capacity} tokens: the longest requests to model {name!r} "
            f"({longest}) never fit; {_REMEDY.format('burst' if limit.rate else 'limit')}"
        )


def _of_parameters(document: Document) -> Iterator[Advice]:
    """Parameters where nobody looks for them."""
    for model in document.models:
        for profile, nested in model.parameters.profiles.items():
            idle = [name for name in _named(nested) if name not in OF_WORKER]
            if idle:
                yield Advice(
                    _owner_of_model(model),
                    f"{_list(idle)} under `profiles: {profile}` without effect: a request has no "
                    "worker yet when it is looked for; it belongs to the model's `parameters`",
                )
    for tenant in document.tenants:
        for name, entry in tenant.parameters.items():
            idle = [one for one in _named(entry) if one in OF_WORKER or one == "profiles"]
            if idle:
                yield Advice(
                    owner_of("tenant", tenant.id),
                    f"{_list(idle)} of `parameters: {name}` without effect: a worker serves all "
                    "tenants; it belongs to the `parameters` of the model",
                )


def _named(entry: ParameterEntry) -> list[str]:
    return [name for name in type(entry).model_fields if getattr(entry, name) not in (None, {})]


def _list(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _of_fallbacks(document: Document) -> Iterator[Advice]:
    """Where a tenant pays more for a request because it was moved to a lesser model."""
    models = {model.name: model for model in document.models}
    for model in document.models:
        fallback = models.get(model.fallback_model or "")
        if fallback is None or fallback.price is None:
            continue
        price, dearer = model.price, fallback.price
        if price is None or dearer.input > price.input or dearer.output > price.output:
            yield Advice(
                _owner_of_model(model),
                f"its fallback_model {fallback.name!r} has dearer tokens: a request that is moved "
                "there costs more than it was asked for",
            )


def _of_tenants(document: Document) -> Iterator[Advice]:
    """Where a tenant's limit and its plan's meet otherwise than was probably meant."""
    plans = {plan.id: plan for plan in document.plans}
    for tenant in document.tenants:
        plan = plans[tenant.plan]
        own_ids = {limit.effective_id for limit in tenant.limits}
        for index, limit in enumerate(tenant.limits):
            owner = owner_of("tenant", tenant.id).limit(index, limit)
            for other in plan.limits:
                if other.effective_id == limit.effective_id:
                    text = _replacing(limit, other, plan.id)
                elif other.effective_id not in own_ids and not limit.shadow:
                    text = _beside(limit, other, plan.id)
                else:
                    continue
                if text:
                    yield Advice(owner, text)


def _replacing(limit: LimitEntry, other: LimitEntry, plan: str) -> str:
    if _subject(limit) == _subject(other):
        return ""
    return (
        f"it replaces limit {other.effective_id!r} of plan {plan!r}, which bounds "
        f"{_subject(other)}, while it bounds {_subject(limit)}; give it another `id` to keep both"
    )


def _beside(limit: LimitEntry, other: LimitEntry, plan: str) -> str:
    if _subject(limit) != _subject(other):
        return ""
    return (
        f"limit {other.effective_id!r} of plan {plan!r} stays in force beside it; "
        f"give it `id: {other.effective_id}` to replace that one"
    )


def _subject(limit: LimitEntry) -> str:
    """What it bounds, for people."""
    window = f" per {limit.window}" if limit.window else ""
    models = f"model {limit.model!r}" if limit.model else "all models"
    return f"{limit.resource}{window} of {models}"


def _capacity(limit: LimitEntry) -> int:
    """Largest level: burst, else a period's amount; or the bound."""
    if limit.rate is not None:
        return limit.burst or limit.rate.amount
    return limit.limit or 0


def _dearest(model: ModelEntry, bounds: Sequence[LimitEntry]) -> int:
    """Nano-units that the longest request costs at most."""
    price = model.price
    if price is None:
        return 0
    return longest_request(model, bounds) * max(price.input, price.cached_input or 0, price.output)
