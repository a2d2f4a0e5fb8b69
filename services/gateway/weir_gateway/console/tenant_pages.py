"""Tenants: use against limits, and what the ledger says, down to users, keys and models."""

from collections import Counter
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from starlette.routing import Route

from weir.common.v1.subject_pb2 import Subject
from weir.directory.v1.directory_pb2 import Tenant
from weir.ratelimiter.v1.ledger_service_pb2 import RowFilter, UsageSum
from weir_core.directory import DirectoryIndex
from weir_core.errors import InvalidField, Reason, WeirError
from weir_gateway.console.account_book import AccountBook
from weir_gateway.console.card import error_json
from weir_gateway.console.forms.directory_json import (
    Counts,
    key_json,
    policy_json,
    tenant_json,
    user_json,
)
from weir_gateway.console.forms.limits_json import limits_json
from weir_gateway.console.forms.moments import moment
from weir_gateway.console.forms.usage_json import GROUPS, added, row_json, totals_json
from weir_gateway.console.gate import Gate
from weir_gateway.console.identity import no_tenant
from weir_gateway.console.sources import Sources
from weir_gateway.console.visit import Visit
from weir_gateway.flow.request_records import RequestRecords
from weir_gateway.openai.query import PAGE, Query
from weir_gateway.paging import page_of

_MOST_ROWS = 2_000
_MOST_GROUPS = 2


class TenantPages:
    """The handlers.

    Args:
        sources: see there.
        records: the requests of this gateway; None: it sees none.
    """

    def __init__(self, sources: Sources, records: RequestRecords | None) -> None:
        self._sources = sources
        self._records = records
        self._book = AccountBook(sources)
        self._counts = Counts()

    def routes(self, gate: Gate) -> list[Route]:
        """Under `/console/api`; ids may hold slashes."""
        return [
            gate.get("/tenants", self._list),
            gate.get("/tenants/{tenant:path}/limits", self._limits),
            gate.get("/tenants/{tenant:path}/usage", self._usage),
            gate.get("/tenants/{tenant:path}/keys", self._keys),
            gate.get("/tenants/{tenant:path}/users", self._users),
            gate.get("/tenants/{tenant:path}", self._one),
        ]

    async def _list(self, visit: Visit) -> Any:
        query = visit.query("search", *PAGE)
        search, page = query.word("search").lower(), visit.page(query)
        index, scope = self._sources.directory.required, visit.who.scope("")
        known = [index.tenant(scope)] if scope else index.tenants
        found = [
            one
            for one in known
            if one is not None and (search in one.id.lower() or search in one.name.lower())
        ]
        shown, token = page_of(found, lambda one: one.id, page.size, page.token)
        today, error = await self._today(scope, "tenant")
        return {
            "tenants": [self._told(index, one) | {"today": _of(today, one.id)} for one in shown],
            "usage_error": error,
            "next_page_token": token,
        }

    async def _one(self, visit: Visit) -> Any:
        tenant = self._tenant(visit)
        visit.query()
        index, admin = self._sources.directory.required, visit.who.is_admin
        cards = await self._sources.cards.all(
            limits=self._limits_of(Subject(tenant_id=tenant.id), for_admin=admin),
            today=self._totals(self._book.today(tenant.id)),
            month=self._totals(self._book.month(tenant.id)),
            reconciliation=self._book.reconcile(tenant.id, for_admin=admin),
        )
        told = self._told(index, tenant) | {"policy": policy_json(index.policy(tenant.id))}
        return {"tenant": told, **cards, "in_flight": self._in_flight(tenant.id)}

    async def _limits(self, visit: Visit) -> Any:
        tenant, query = self._tenant(visit), visit.query("user", "key", "model")
        subject = Subject(
            tenant_id=tenant.id,
            user_id=query.word("user"),
            api_key_id=query.word("key"),
            model=query.word("model"),
        )
        key = self._sources.directory.required.key(subject.api_key_id)
        if key is not None and key.tenant_id == tenant.id and not subject.user_id:
            subject.user_id = key.user_id
        self._check_subject(subject)
        return await self._limits_of(subject, for_admin=visit.who.is_admin)

    async def _usage(self, visit: Visit) -> Any:
        tenant, query = self._tenant(visit), visit.query("from_time", "to_time", "by")
        by, where = _groups(query), self._book.today(tenant.id)
        for name in ("from_time", "to_time"):
            if name in query:
                getattr(where, name).CopyFrom(_time(query, name))
        sums = await self._sources.ledger.sums(where, [GROUPS[group] for group in by])
        if len(sums) > _MOST_ROWS:
            raise InvalidField(
                "by", ",".join(by), f"such that there are at most {_MOST_ROWS} rows; narrow times"
            )
        return {
            "from_time": moment(where, "from_time"),
            "to_time": moment(where, "to_time"),
            "total": totals_json(added(sums)),
            "rows": [row_json(one, by) for one in sums] if by else [],
        }

    async def _keys(self, visit: Visit) -> Any:
        tenant, query = self._tenant(visit), visit.query(*PAGE)
        page, index = visit.page(query), self._sources.directory.required
        keys = [key for key in index.api_keys if key.tenant_id == tenant.id]
        shown, token = page_of(keys, lambda key: key.id, page.size, page.token)
        today, error = await self._today(tenant.id, "api_key")
        return {
            "keys": [key_json(key) | {"today": _of(today, key.id)} for key in shown],
            "usage_error": error,
            "next_page_token": token,
        }

    async def _users(self, visit: Visit) -> Any:
        tenant, query = self._tenant(visit), visit.query(*PAGE)
        page, index = visit.page(query), self._sources.directory.required
        users = [user for user in index.users if user.tenant_id == tenant.id]
        keys = Counter(key.user_id for key in index.api_keys if key.tenant_id == tenant.id)
        shown, token = page_of(users, lambda user: user.id, page.size, page.token)
        today, error = await self._today(tenant.id, "user")
        return {
            "users": [
                user_json(user, keys[user.id]) | {"today": _of(today, user.id)} for user in shown
            ],
            "usage_error": error,
            "next_page_token": token,
        }

    def _tenant(self, visit: Visit) -> Tenant:
        """The tenant of the path; the same refusal for another's and for none."""
        found = self._sources.directory.required.tenant(visit.who.scope(visit.part("tenant")))
        if found is None:
            raise no_tenant("tenant")
        return found

    def _in_flight(self, tenant_id: str) -> int | None:
        if self._records is None:
            return None
        return sum(live.prepared.caller.tenant_id == tenant_id for live in self._records)

    def _told(self, index: DirectoryIndex, tenant: Tenant) -> dict[str, Any]:
        if self._counts.version != index.version:
            self._counts = Counts(index)
        return tenant_json(index, tenant, self._counts)

    def _check_subject(self, subject: Subject) -> None:
        index, tenant = self._sources.directory.required, subject.tenant_id
        key = index.key(subject.api_key_id)
        if subject.api_key_id and (key is None or key.tenant_id != tenant):
            raise _none("key")
        if subject.user_id and index.user(tenant, subject.user_id) is None:
            raise _none("user")
        allowed = index.policy(tenant).allowed_models
        model = index.model(subject.model)
        if subject.model and (model is None or (allowed and model.name not in allowed)):
            raise _none("model")

    async def _limits_of(self, subject: Subject, *, for_admin: bool) -> dict[str, Any]:
        return limits_json(await self._book.explain(subject), for_admin=for_admin)

    async def _totals(self, where: RowFilter) -> dict[str, Any]:
        return totals_json(await self._book.total(where))

    async def _today(self, tenant_id: str, group: str) -> tuple[dict[str, UsageSum] | None, Any]:
        """Sums of today by group; None and why when the ledger cannot tell."""
        try:
            return await self._book.by_group(self._book.today(tenant_id), group), None
        except WeirError as error:
            return None, error_json(error)


def _of(sums: dict[str, UsageSum] | None, name: str) -> dict[str, Any] | None:
    """What is charged to one; nothing was, where the ledger has no sum of it."""
    return None if sums is None else totals_json(sums.get(name, UsageSum()))


def _none(what: str) -> WeirError:
    return WeirError(Reason.NOT_FOUND, f"the tenant has no such {what}", field=what)


def _groups(query: Query) -> list[str]:
    words = [word for word in query.word("by").split(",") if word]
    if len(words) > _MOST_GROUPS or not set(words) <= GROUPS.keys():
        known = ", ".join(GROUPS)
        raise InvalidField("by", ",".join(words), f"at most {_MOST_GROUPS} of {known}")
    return list(dict.fromkeys(words))


def _time(query: Query, name: str) -> Timestamp:
    time, text = Timestamp(), query.word(name)
    try:
        time.FromJsonString(text)
    except ValueError:
        raise InvalidField(name, text, "a time such as 2026-11-30T00:00:00Z") from None
    return time
