"""The batches of a gateway's tenants, wired."""

from starlette.routing import BaseRoute

from weir_core.clock import Clock
from weir_gateway.batches import response_kind
from weir_gateway.batches.batch_store import BatchStore
from weir_gateway.batches.driver import BatchDriver
from weir_gateway.batches.finalising import Finaliser
from weir_gateway.batches.insertion import Inserter
from weir_gateway.batches.lease import BatchLeases
from weir_gateway.batches.line_cost import LineCost
from weir_gateway.batches.notices import BatchNotices
from weir_gateway.batches.pages import BatchPages
from weir_gateway.batches.response_kind import BatchResponseKind
from weir_gateway.batches.steps import BatchSteps
from weir_gateway.batches.validation import Validator
from weir_gateway.directory.follower import Directory
from weir_gateway.files.file_store import FileStore
from weir_gateway.flow.reception import Reception
from weir_gateway.intake.preparer import Preparer
from weir_gateway.jobs.room import JobRoom
from weir_gateway.settings import GatewaySettings
from weir_gateway.state.state import State


class BatchRoom:
    """Store, pages and driver of batches.

    Args:
        settings: of the process.
        state: where they are kept.
        files: input and output.
        jobs: run the lines.
        directory, reception, preparer: know callers and what lines cost.
        clock: time.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        state: State,
        *,
        files: FileStore,
        jobs: JobRoom,
        directory: Directory,
        reception: Reception,
        preparer: Preparer,
        clock: Clock,
    ) -> None:
        self._state = state
        jobs.kinds.register(response_kind.KIND, BatchResponseKind(clock))
        self._store = BatchStore(state, files, jobs.store, clock)
        max_line = settings.max_body_bytes
        ended = BatchNotices(jobs.webhooks.outbox).on_end
        cost = LineCost(directory, preparer)
        steps = BatchSteps(
            state=state,
            reception=reception,
            files=files,
            jobs=jobs.store,
            validator=Validator(
                files=files, kinds=jobs.kinds, cost=cost, clock=clock, longest=max_line
            ),
            inserter=Inserter(
                state=state,
                files=files,
                jobs=jobs.store,
                clock=clock,
                longest=max_line,
            ),
            finaliser=Finaliser(
                state=state, files=files, jobs=jobs.store, clock=clock, ended=ended
            ),
            clock=clock,
            ended=ended,
        )
        self._driver = BatchDriver(state, BatchLeases(state, clock), steps, self._store)
        self._pages = BatchPages(
            reception=reception,
            store=self._store,
            driver=self._driver,
            kinds=jobs.kinds,
            clock=clock,
            submissions=jobs.submissions,
            http_webhooks=settings.webhooks_over_http,
        )

    def routes(self) -> list[BaseRoute]:
        """Of the HTTP door."""
        return list(self._pages.routes())

    def start(self) -> None:
        """Begins to carry batches on."""
        if self._state.on:
            self._driver.start()

    async def stop(self) -> None:
        """Ends what runs."""
        await self._driver.stop()
