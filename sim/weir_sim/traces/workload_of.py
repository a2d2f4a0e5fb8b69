"""Rows of a trace, or of a generator, as a workload."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from weir_sim.traces.named import format_of
from weir_sim.traces.trace_error import TraceError
from weir_sim.traces.trace_format import ReadSpan
from weir_sim.traces.trace_row import TraceRow
from weir_sim.traces.workload_options import WorkloadOptions
from weir_sim.workload import SimRequest, Workload

_CHUNK = 1_024


def workload_of_file(path: Path, options: WorkloadOptions, format_name: str = "") -> Workload:
    """Reads a trace. Raises TraceError for the file, its lines and the options."""
    trace = format_of(path, format_name)
    if not trace.timed and not options.rate_rps:
        raise TraceError(
            f"{path}: the format {trace.name} has no arrival times; give --rate in requests/s"
        )
    span = ReadSpan(seed=options.seed)
    if not options.rate_rps:
        span = ReadSpan(options.from_s, options.until_s, options.seed)
    rows = trace.read(path, span)
    return workload_of_rows(path.stem, rows, options, trace.granularity)


def workload_of_rows(
    name: str, rows: Iterable[TraceRow], options: WorkloadOptions, granularity: int
) -> Workload:
    """Turns rows into requests by the options. Raises TraceError when nothing is left."""
    timed = _redrawn(rows, options) if options.rate_rps else rows
    chosen = enumerate(islice(timed, options.limit or None))
    requests = [_request(index, row, options) for index, row in chosen]
    if not requests:
        raise TraceError(f"{name}: no request in the chosen part; see --from, --until, --limit")
    requests.sort(key=lambda request: request.arrival_s)
    return Workload(name, tuple(requests), options.tenant_rules(), granularity)


def _request(index: int, row: TraceRow, options: WorkloadOptions) -> SimRequest:
    tenant_id = options.tenants.tenant_of(index, row)
    arrival_s = (row.arrival_s or 0.0) - options.from_s
    return SimRequest(
        request_id=f"r{index}",
        arrival_s=max(0.0, arrival_s) / options.rate_scale,
        tenant_id=tenant_id,
        prompt_tokens=row.prompt_tokens,
        output_tokens=row.output_tokens,
        request_class=options.class_of(tenant_id),
        session_id=row.session and f"{tenant_id}/{row.session}",
        prefix_hashes=tuple(prefix_hash(tenant_id, one) for one in row.prefix_ids),
        predicted_output=row.predicted_output,
    )


def prefix_hash(tenant_id: str, prefix_id: int) -> bytes:
    """A chained id as a hash of its tenant: no prefix is ever shared by two tenants."""
    key = f"{tenant_id}\0{prefix_id}".encode()
    return hashlib.blake2b(key, digest_size=16).digest()


def _redrawn(rows: Iterable[TraceRow], options: WorkloadOptions) -> Iterator[TraceRow]:
    """The rows at Poisson arrivals from `from_s` on, until `until_s`."""
    moments = _poisson(options.seed, options.rate_rps)
    for row, moment in zip(rows, moments, strict=False):
        if options.from_s + moment >= options.until_s:
            return
        yield replace(row, arrival_s=options.from_s + moment)


def _poisson(seed: int, rate_rps: float) -> Iterator[float]:
    rng = np.random.default_rng([seed, 1])
    now_s = 0.0
    while True:
        for gap_s in rng.exponential(1 / rate_rps, _CHUNK):
            now_s += float(gap_s)
            yield now_s
