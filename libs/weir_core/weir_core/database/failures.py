"""What a database that is not there, or not in order, raises."""

from sqlalchemy.exc import SQLAlchemyError

from weir_core.database.file import DatabaseMoved
from weir_core.errors.startup import StartupError

FAILURES = (SQLAlchemyError, OSError, TimeoutError, StartupError, DatabaseMoved)


def cause_of(error: BaseException) -> str:
    """What went wrong, in one line without statements, values or passwords."""
    if isinstance(error, StartupError | DatabaseMoved):
        return str(error)
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    driver = getattr(error, "orig", None) or error
    name = type(driver).__name__
    if isinstance(driver, OSError) and driver.strerror:
        return f"{name}: {driver.strerror}"
    code = getattr(driver, "sqlite_errorname", None) or getattr(driver, "sqlstate", None)
    return f"{name}: {code}" if code else name
