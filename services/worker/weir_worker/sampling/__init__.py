from weir_worker.sampling.grammar import Grammar
from weir_worker.sampling.params import SamplingParams
from weir_worker.sampling.samples import Samples
from weir_worker.sampling.state import SamplingState
from weir_worker.sampling.token_logprobs import TokenLogprobs

__all__ = ["Grammar", "SamplingParams", "SamplingState", "Samples", "TokenLogprobs"]
