"""Fills an empty database from a directory file, once."""

from weir_gateway.directory.document import Document
from weir_gateway.directory.snapshot_builder import build_snapshot
from weir_gateway.directory.sql.entry_form import (
    Form,
    key_form,
    limit_forms,
    model_form,
    plan_form,
    tenant_form,
    user_form,
)
from weir_gateway.directory.sql.records import Kind, Record

CLUSTER_ID = "cluster"


def records_of(document: Document) -> list[Record]:
    """Every object of a checked document."""
    snapshot = build_snapshot(document, 1)
    records = [
        *(Record(Kind.PLAN, plan.id, "", plan_form(plan)) for plan in snapshot.plans),
        *(Record(Kind.MODEL, model.name, "", model_form(model)) for model in snapshot.models),
        *(Record(Kind.TENANT, one.id, one.id, tenant_form(one)) for one in snapshot.tenants),
        *(
            Record(Kind.USER, f"{user.tenant_id}/{user.id}", user.tenant_id, user_form(user))
            for user in snapshot.users
        ),
        *(Record(Kind.KEY, key.id, key.tenant_id, key_form(key)) for key in snapshot.api_keys),
    ]
    for pool in document.pools:
        form: Form = pool.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        records.append(Record(Kind.POOL, pool.name, pool.tenant or "", form))
    limits = {"limits": limit_forms(snapshot.cluster_limits)}
    return [*records, Record(Kind.CLUSTER, CLUSTER_ID, "", limits)]
