"""Makes the Grafana dashboards and the tests of alerts in deploy/ (what `make proto` runs).

`--check` changes nothing and fails if a file is behind.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.dashboards.limits import LIMITS  # noqa: E402
from tools.dashboards.overview import OVERVIEW  # noqa: E402
from tools.dashboards.panels import rendered  # noqa: E402
from tools.dashboards.slo import SLO  # noqa: E402
from tools.dashboards.tenant import TENANTS  # noqa: E402
from tools.dashboards.worker import WORKERS  # noqa: E402
from tools.generated_files import write_or_check  # noqa: E402
from tools.promtool_tests import TESTS, promtool_tests  # noqa: E402

DASHBOARDS = (OVERVIEW, TENANTS, WORKERS, LIMITS, SLO)
GRAFANA = ROOT / "deploy" / "grafana"


def files() -> dict[Path, str]:
    """Each file with its text."""
    made = {TESTS: promtool_tests()}
    for dashboard in DASHBOARDS:
        path = GRAFANA / f"{dashboard.uid}.json"
        made[path] = json.dumps(rendered(dashboard), indent=2) + "\n"
    return made


def main() -> int:
    """See the module; returns the exit status."""
    return write_or_check(files(), __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
