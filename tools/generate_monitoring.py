"""Makes the Grafana dashboards and the tests of alerts in deploy/ (what `make proto` runs).

`--check` changes nothing and fails if a file is behind.
"""

import argparse
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
    """Writes the files, or with `--check` says which are behind; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="change nothing")
    check = parser.parse_args().check
    behind = []
    for path, text in files().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            behind.append(str(path.relative_to(ROOT)))
            if not check:
                path.write_text(text, encoding="utf-8")
    if check and behind:
        sys.stderr.write(f"behind, run `make proto`: {', '.join(behind)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
