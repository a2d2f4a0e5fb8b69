from weir_worker.kv.block_chain import PrefixScopes
from weir_worker.kv.block_table import BlockTable
from weir_worker.kv.integrity import IntegrityError, check_integrity
from weir_worker.kv.kv_policy import KvPolicy
from weir_worker.kv.manager import KvManager
from weir_worker.kv.shortage import Shortage

__all__ = [
    "BlockTable",
    "IntegrityError",
    "KvManager",
    "KvPolicy",
    "PrefixScopes",
    "Shortage",
    "check_integrity",
]
