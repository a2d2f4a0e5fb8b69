from weir_worker.text.detokenizer import Detokenizer, DetokenizerFactory
from weir_worker.text.factory import detokenizer_factory
from weir_worker.text.output_text import OutputText
from weir_worker.text.stop_matcher import StopMatcher

__all__ = [
    "Detokenizer",
    "DetokenizerFactory",
    "OutputText",
    "StopMatcher",
    "detokenizer_factory",
]
