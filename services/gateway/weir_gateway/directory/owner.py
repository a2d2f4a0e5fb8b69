"""Entries of the directory file that hold limits, and how people and files call them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weir_gateway.directory.document import Document
from weir_gateway.directory.entries import LimitEntry
from weir_gateway.directory.places import Step


@dataclass(frozen=True, slots=True)
class Owner:
    """An entry of the file.

    Attributes:
        name: for people, such as `tenant 'acme', user 'alice'`.
        path: see `Places.line`.
    """

    name: str
    path: tuple[Step, ...]

    def within(self, kind: str, name: str) -> "Owner":
        """One of its own entries: `kind` is `user` or `key`."""
        return Owner(f"{self.name}, {kind} {name!r}", (*self.path, f"{kind}s", name))

    def limit(self, index: int, limit: LimitEntry) -> "Owner":
        """One of its own limits."""
        name = f"{self.name}, limit {limit.effective_id!r}"
        return Owner(name, (*self.path, "limits", index))


CLUSTER = Owner("cluster", ("cluster",))


def owner_of(kind: str, name: str) -> Owner:
    """The owner of one entry of the top level: `kind` is `plan`, `model`, `tenant` or `pool`."""
    return Owner(f"{kind} {name!r}", (f"{kind}s", name))


def owners_of_limits(document: Document) -> Iterator[tuple[Owner, Sequence[LimitEntry]]]:
    """Every entry that may hold limits, with its own limits."""
    yield CLUSTER, document.cluster.limits
    for plan in document.plans:
        yield owner_of("plan", plan.id), plan.limits
    for model in document.models:
        yield owner_of("model", model.name), model.limits
    for tenant in document.tenants:
        owner = owner_of("tenant", tenant.id)
        yield owner, tenant.limits
        for user in tenant.users:
            yield owner.within("user", user.id), user.limits
        for key in tenant.keys:
            yield owner.within("key", key.id), key.limits
