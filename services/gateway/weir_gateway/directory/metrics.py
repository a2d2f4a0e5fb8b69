"""What the gateway tells of its directory."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from weir_core.directory import DirectoryIndex


class DirectoryMetrics:
    """The version in force, and the edits of the file that were refused."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._version = Gauge(
            "weir_gateway_directory_version",
            "Version of the directory in force: Unix milliseconds; 0 before the first",
            registry=registry,
        )
        self._refused = Counter(
            "weir_gateway_directory_refused",
            "Readings of the directory file that were refused; the last good version stayed",
            registry=registry,
        )

    def changed(self, index: DirectoryIndex) -> None:
        """A version came into force."""
        self._version.set(index.version)

    def refused(self) -> None:
        """The file was read and refused."""
        self._refused.inc()
