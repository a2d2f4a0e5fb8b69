from weir_worker.attention.base import AttentionBackend, AttentionPlan
from weir_worker.attention.cache import PagedKvCache
from weir_worker.attention.factory import AttentionName, make_attention

__all__ = ["AttentionBackend", "AttentionName", "AttentionPlan", "PagedKvCache", "make_attention"]
