from weir_core.directory.index import DirectoryIndex, ScopedLimit
from weir_core.directory.parameters import Parameters, resolve_parameters

__all__ = ["DirectoryIndex", "Parameters", "ScopedLimit", "resolve_parameters"]
