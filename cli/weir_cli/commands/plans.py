"""`weir plans`: the plans of a stack whose directory is a database."""

from weir_cli.commands.objects import objects_app
from weir_cli.directory_nouns import PLAN

app = objects_app(PLAN, "List, change and remove plans.")
