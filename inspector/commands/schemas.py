"""The JSON Schema of a command's ``--json``: ``ptxview --schema COMMAND``."""

from __future__ import annotations

from inspector.base.errors import Exit, UsageError
from inspector.base.text import shown
from inspector.reader.tables import names, schema
from inspector.report.jsons import dumps
from inspector.system import printing


def show(command: str) -> int:
    """Print a schema. Raises ``UsageError`` with the known ones for another command."""
    value = schema(command)
    if value is None:
        raise UsageError(
            f"there is no schema of {shown(command)}", f"There is one of {', '.join(names())}."
        )
    printing.json_line(dumps(value))
    return Exit.OK
