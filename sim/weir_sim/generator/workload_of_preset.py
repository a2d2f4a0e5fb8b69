"""A preset as a workload."""

from dataclasses import replace
from itertools import dropwhile, takewhile

from weir_sim.generator.preset import Preset
from weir_sim.traces.workload_of import workload_of_rows
from weir_sim.traces.workload_options import WorkloadOptions
from weir_sim.workload import Workload


def workload_of_preset(preset: Preset, options: WorkloadOptions) -> Workload:
    """Generates a load by the options; without limit and end it is `preset.requests` long."""
    rows = preset.rows(options.seed)
    if options.until_s == float("inf"):
        options = replace(options, limit=options.limit or preset.requests)
    if not options.rate_rps:
        late = dropwhile(lambda row: (row.arrival_s or 0.0) < options.from_s, rows)
        rows = takewhile(lambda row: (row.arrival_s or 0.0) < options.until_s, late)
    return workload_of_rows(preset.name, rows, options, preset.granularity)
