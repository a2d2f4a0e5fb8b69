"""The start of everything, where a chosen port may be gone."""

import re

from weir_cli.stack.child import StartFailed
from weir_cli.stack.supervisor import Supervisor

_TAKEN = "Address already in use"


async def start_all(supervisor: Supervisor) -> None:
    """Starts all; a port that was free when it was chosen can be taken by now."""
    try:
        await supervisor.start()
    except StartFailed as error:
        if _TAKEN not in str(error):
            raise
        # The service names its own setting, which is not one of `weir up`.
        what = re.sub(r"; change \w+", "", str(error))
        raise StartFailed(f"{what}; try again, or choose another --port") from None
