from weir_worker.sampling.params import SamplingParams
from weir_worker.sampling.samples import Samples
from weir_worker.sampling.state import SamplingState

__all__ = ["SamplingParams", "SamplingState", "Samples"]
