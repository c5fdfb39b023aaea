"""Key bindings and the footer, made from the table of commands."""

from __future__ import annotations

from collections.abc import Callable

from textual.binding import Binding, BindingType

from inspector.tui.command_table import ALSO, BARE, MARKS, SHARED, TABLE, Command, Where

__all__ = [
    "ALSO", "BARE", "MARKS", "SHARED", "TABLE", "Command", "Where", "bindings", "bindings_of",
    "command", "footer", "there",
]  # fmt: skip


def bindings(where: Where) -> list[BindingType]:
    """The key bindings of the widget that has these actions.

    They have priority: such a key is acted upon before the next one is handed on. Without it a
    key that moves the focus and the one typed after it, which arrive together over a slow line,
    would both go to the widget that had the focus before.
    """
    return bindings_of(tuple(command.id for command in TABLE if command.where is where))


def bindings_of(names: tuple[str, ...]) -> list[BindingType]:
    """The key bindings of the commands with these ids."""
    return [
        Binding(
            command.keys, command.action, command.title, show=False, priority=True, id=command.id
        )
        for command in TABLE
        if command.id in names
    ]


def there(wheres: tuple[Where, ...]) -> tuple[Command, ...]:
    """The commands of a screen whose widgets these are."""
    names = {name for where in wheres for name in ALSO.get(where, ())}
    return tuple(c for c in TABLE if c.where in wheres or c.id in names)


def footer(
    where: Where, shown: Callable[[Command], str] = lambda one: one.shown
) -> tuple[tuple[str, str, str], ...]:
    """(key, word, command id) in the order in which they may be left out, the last kept longest.

    ``shown`` gives the key of a command, "" where it has none.
    """
    alone = where in ALSO
    chosen = [c for c in there((where,) if alone else (where, Where.SCREEN)) if c.footer]
    if alone:
        chosen.sort(key=lambda c: (c.id != "help", c.where is not where))
    if where is Where.TREE:
        chosen = [c for c in chosen if c.id != "filter"]  # "/" says it already
    out = [(key, c.footer, c.id) for c in chosen if (key := shown(c))]
    if ALSO.get(where) is not BARE:
        out.insert(2, ("1-7", "stage", "stage.next"))
    return tuple(out)


def command(name: str) -> Command:
    """The command with that id."""
    return next(c for c in TABLE if c.id == name)
