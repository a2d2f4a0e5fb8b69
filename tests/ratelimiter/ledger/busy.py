"""A process that settles and pumps until it is killed: `python -m ... JOURNAL URL FIRST`."""

import asyncio
import sys
from pathlib import Path

from tests.ratelimiter.ledger.billed import SUBJECTS, Billed, snapshot


async def main(journal: str, url: str, first: int) -> None:
    account = Billed(Path(journal), url)
    await account.use(snapshot())
    await account.ledger.start()
    number = first
    while True:
        name = f"r{number}"
        subject = SUBJECTS[number % len(SUBJECTS)]
        admission = await account.reserve(name, prompt=10, output=20, subject=subject)
        await account.settle(admission.record, 10, 5)
        print(name, flush=True)
        number += 1
        await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
