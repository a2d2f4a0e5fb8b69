"""Batches as rows."""

import json
from dataclasses import asdict
from typing import Any

from sqlalchemy import Row, Select, select

from weir.common.v1.usage_pb2 import Usage
from weir_gateway.batches.batch import Batch, BatchError, BatchState
from weir_gateway.batches.tables import batches

_OURS_ALONE = ("lease_id", "lease_ms", "due_ms")
_whole = [column for column in batches.c if column.name not in _OURS_ALONE]
_light = [column for column in _whole if column.name != "line_tokens"]


def select_batches(*, whole: bool = False) -> Select[Any]:
    """Batches; `line_tokens` with whole ones alone."""
    return select(*(_whole if whole else _light))


def to_batch(row: Row[Any]) -> Batch:
    """The batch of a row."""
    values = dict(row._mapping)
    values["state"] = BatchState(values["state"])
    values["metadata"] = json.loads(values["metadata"])
    values["errors"] = tuple(BatchError(**error) for error in json.loads(values["errors"]))
    values["usage"] = Usage.FromString(values["usage"])
    return Batch(**values)


def to_row(batch: Batch) -> dict[str, Any]:
    """The row of a new batch, to be looked at now."""
    values = {column.name: getattr(batch, column.name) for column in _whole}
    values["state"] = batch.state.value
    values["metadata"] = json.dumps(dict(batch.metadata))
    values["errors"] = errors_text(batch.errors)
    values["usage"] = batch.usage.SerializeToString()
    return values | {"lease_id": "", "lease_ms": 0, "due_ms": batch.created_ms}


def errors_text(errors: tuple[BatchError, ...]) -> str:
    """Errors as they are kept."""
    return json.dumps([asdict(error) for error in errors])
