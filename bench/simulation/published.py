"""Published lengths at a rate of one's own, or loads generated like them."""

from bench.simulation.row import Context
from weir_sim.generator.presets import PRESETS
from weir_sim.generator.workload_of_preset import workload_of_preset
from weir_sim.traces.workload_of import workload_of_file
from weir_sim.traces.workload_options import WorkloadOptions
from weir_sim.workload import Workload

_FILES = {
    "azure-conv": "azure-2023/AzureLLMInferenceTrace_conv.csv",
    "azure-code": "azure-2023/AzureLLMInferenceTrace_code.csv",
    "arxiv": "vidur/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv",
}


def poisson(context: Context, name: str, rate_rps: float, requests: int, seed: int = 1) -> Workload:
    """The first requests of a published trace at Poisson arrivals; generated ones without it."""
    options = WorkloadOptions(limit=requests, rate_rps=rate_rps, seed=seed)
    path = context.file(_FILES[name])
    if path is None:
        return workload_of_preset(PRESETS[name], options)
    return workload_of_file(path, options)


def source(context: Context, name: str) -> str:
    """What to say of where the lengths come from."""
    if context.file(_FILES[name]) is None:
        return f"generated like {name} ($TRACES is not given)"
    return name
