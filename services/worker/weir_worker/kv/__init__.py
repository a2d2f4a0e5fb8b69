from weir_worker.kv.block_chain import PrefixScopes
from weir_worker.kv.block_table import BlockTable
from weir_worker.kv.integrity import IntegrityError, check_integrity
from weir_worker.kv.manager import KvManager

__all__ = ["BlockTable", "IntegrityError", "KvManager", "PrefixScopes", "check_integrity"]
