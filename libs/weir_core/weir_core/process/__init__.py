from weir_core.process.http import HttpServer
from weir_core.process.parent import ParentWatch, exit_with_parent
from weir_core.process.runtime import ServiceRuntime
from weir_core.process.start import run_service

__all__ = ["HttpServer", "ParentWatch", "ServiceRuntime", "exit_with_parent", "run_service"]
