"""Jobs as rows."""

from typing import Any

from sqlalchemy import ColumnElement, Row, Select, case, select
from sqlalchemy.ext.asyncio import AsyncConnection

from weir.common.v1.usage_pb2 import Usage
from weir_gateway.jobs.job import Job, JobState
from weir_gateway.jobs.tables import jobs

_OURS_ALONE = ("runner_id", "charge", "charge_due_ms")
_HEAVY = ("body", "result")

whole_columns = [column for column in jobs.c if column.name not in _OURS_ALONE]
_light = [column for column in whole_columns if column.name not in _HEAVY]


def select_jobs() -> Select[Any]:
    """Whole jobs."""
    return select(*whole_columns)


def select_heads() -> Select[Any]:
    """Jobs without bodies and results."""
    return select(*_light)


def to_job(row: Row[Any]) -> Job:
    """The job of a row of either selection."""
    values = dict(row._mapping)
    values["state"] = JobState(values["state"])
    values["usage"] = Usage.FromString(values["usage"])
    values["idempotency_key"] = values["idempotency_key"] or ""
    values.setdefault("body", b"")
    values.setdefault("result", b"")
    return Job(**values)


def to_row(job: Job) -> dict[str, Any]:
    """The row of a new job."""
    values = {column.name: getattr(job, column.name) for column in whole_columns}
    values["state"] = job.state.value
    values["usage"] = job.usage.SerializeToString()
    values["idempotency_key"] = job.idempotency_key or None
    # What waits longest has its turn first, tried before or not.
    values["not_before_ms"] = job.not_before_ms or job.created_ms
    return values | {"runner_id": "", "charge": b"", "charge_due_ms": 0}


def kept_until(now_ms: int, retention_ms: int) -> ColumnElement[int]:
    """When a job that ends now is removed; lines of a batch are kept until it drops them."""
    return case((jobs.c.batch_id == "", now_ms + retention_ms), else_=0)


async def read_one(connection: AsyncConnection, *conditions: Any) -> Job | None:
    """The whole job that meets conditions, if there is one."""
    row = (await connection.execute(select_jobs().where(*conditions))).first()
    return None if row is None else to_job(row)
