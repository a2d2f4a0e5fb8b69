from tests.gateway.state_databases import state

__all__ = ["state"]
