"""One call of the JSON API by somebody who has signed in."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from weir_gateway.console.identity import Identity
from weir_gateway.console.session_store import Session
from weir_gateway.openai.query import Query

_DEFAULT_PAGE, _LARGEST_PAGE = 50, 200


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is asked for."""

    size: int
    token: str


@dataclass(frozen=True, slots=True)
class Visit:
    """What a handler gets.

    Attributes:
        request: as it came.
        session: whose it is.
    """

    request: Request
    session: Session

    @property
    def who(self) -> Identity:
        """Who has signed in."""
        return self.session.identity

    def query(self, *known: str) -> Query:
        """The query string; other parameters are refused. Raises WeirError."""
        return Query(self.request.query_params, known)

    def part(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def page(self, query: Query) -> Page:
        """The page that is asked for; needs `PAGE`. Raises InvalidField."""
        size = query.integer("page_size", default=_DEFAULT_PAGE, most=_LARGEST_PAGE)
        return Page(size, query.page()[1])

    def tenant(self, query: Query) -> str:
        """The tenant that a list is about; empty: of all, for administrators.

        Raises:
            WeirError: NOT_FOUND for another's.
        """
        return self.who.scope(query.word("tenant"))


def words(text: str, known: Sequence[str]) -> list[str]:
    """Those of a list with commas that are known, in its order; the rest are dropped."""
    return [word for word in dict.fromkeys(text.split(",")) if word in known]
