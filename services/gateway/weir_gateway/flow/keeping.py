"""An answer that is charged by whoever has written it down, and by nobody else."""

import asyncio

from weir_gateway.flow.delivery import Delivery
from weir_gateway.flow.ending import Ending


class Keeping:
    """Of one request, between the front desk and whoever keeps its answer.

    The ratelimiter is told of no progress, so that a reservation that lapses, or is refunded,
    is given back whole. It is held from the end of the answer until `decide` is called; the
    keeper must call it, whatever happens.

    Args:
        request_id: the request gets it; unique to the attempt.
    """

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self._gives_back: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def decide(self, *, gives_back: bool) -> None:
        """Ends the hold; a later call changes nothing.

        Args:
            gives_back: nobody keeps the answer and nobody will charge it: refund it. If not,
                whoever kept it settles; if nobody did, the reservation lapses.
        """
        if not self._gives_back.done():
            self._gives_back.set_result(gives_back)

    async def hand_over(self, delivery: Delivery[Ending], ending: Ending) -> bool:
        """Gives the whole answer to its keeper; whether the front desk is to give it back."""
        delivery.finish(ending)
        return await asyncio.shield(self._gives_back)
