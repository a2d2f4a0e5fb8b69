"""Where the tables of the state database are declared: each in the room of its noun."""

from sqlalchemy import MetaData

metadata = MetaData()
