"""The plug-ins of a placement, as the product puts them together."""

from collections.abc import Mapping

from weir_scheduler.placement.contracts import Filter, Picker, Scorer
from weir_scheduler.placement.filters.has_room.has_room import HasRoom
from weir_scheduler.placement.filters.not_excluded.not_excluded import NotExcluded
from weir_scheduler.placement.filters.takes_work.takes_work import TakesWork
from weir_scheduler.placement.pickers.least_cost.least_cost import LeastCost
from weir_scheduler.placement.scorers.backlog.backlog import Backlog
from weir_scheduler.placement.scorers.uncached_prefill.uncached_prefill import UncachedPrefill

FILTERS: Mapping[str, Filter] = {"takes_work": TakesWork(), "not_excluded": NotExcluded()}
"""Whom they keep out is not waited for here."""

ROOM: Mapping[str, Filter] = {"has_room": HasRoom()}
"""Whom they keep out is waited for."""

SCORERS: Mapping[str, Scorer] = {"uncached_prefill": UncachedPrefill(), "backlog": Backlog()}
PICKERS: Mapping[str, Picker] = {"least_cost": LeastCost()}
