"""Names of keys, and rebinding of commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.keys import KEY_NAME_REPLACEMENTS, Keys, _character_to_key, key_to_character

from inspector.tui.keys.command_table import ALSO, TABLE, Command, Where

UNBOUND = "unbound"
"""The key of a command without one, in Textual's keymap."""

MODIFIERS = ("ctrl", "alt", "shift")
_REPLACED = {short: long for long, short in KEY_NAME_REPLACEMENTS.items()}
_NAMES = {key.value for key in Keys if "+" not in key.value and not key.value.startswith("<")}
_SHORT = {
    "escape": "Esc",
    "enter": "Enter",
    "tab": "Tab",
    "space": "Space",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "home": "Home",
    "end": "End",
    "backspace": "⌫",
    "delete": "Del",
    "insert": "Ins",
}


def parse_key(text: str) -> str | None:
    """Textual's name of a key written as ``/``, ``G``, ``ctrl+x``, ``alt+enter`` or ``f5``.

    None if there is no such key.
    """
    *held, last = text.split("+") if len(text) > 1 and not text.endswith("+") else (text,)
    if text.endswith("++"):
        held, last = text[:-2].split("+"), "+"
    modifiers = [word.strip().lower() for word in held]
    if any(word not in MODIFIERS for word in modifiers):
        return None
    last = last if last == " " else last.strip()
    if len(last) == 1:
        if not last.isprintable():
            return None
        if "shift" in modifiers and last.isalpha():
            modifiers.remove("shift")
            last = last.upper()
        if "ctrl" in modifiers:
            last = last.lower()
        last = _character_to_key(last)
    else:
        last = last.lower()
        if last not in _NAMES:
            character = key_to_character(_REPLACED.get(last, last))
            if character is None or _character_to_key(character) != last:
                return None
    return "+".join([*(m for m in MODIFIERS if m in modifiers), last])


def shown_key(key: str) -> str:
    """A key for the footer and the help: ``^x``, ``⇧Tab``, ``?``, ``F5``."""
    *modifiers, last = key.split("+")
    character = key_to_character(_REPLACED.get(last, last)) if last not in _SHORT else None
    if len(last) == 1:
        character = last
    word = _SHORT.get(last) or (character if character and character.isprintable() else None)
    signs = {"ctrl": "^", "alt": "⌥", "shift": "⇧"}
    word = word or last.replace("_", " ").title()
    return "".join(signs.get(m, f"{m}+") for m in modifiers) + word


def places(command: Command) -> frozenset[Where]:
    """Where the key of a command does something: two commands cannot share a key in one place."""
    own = {Where.PANE, Where.TREE} if command.where is Where.SCREEN else {command.where}
    return frozenset(own | {where for where, names in ALSO.items() if command.id in names})


def rebind(
    wanted: Mapping[str, tuple[str, ...]], table: Iterable[Command] = TABLE
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The keys of each command that changed, as Textual has them, and what could not be done.

    ``wanted`` has Textual's names of keys by the id of a command. A key that is asked for is taken
    from the command that has it at first; asked for twice in one place, the first has it.
    """
    commands = {c.id: c for c in table}
    problems: list[str] = []
    keys: dict[str, list[str]] = {}
    owners: dict[tuple[str, Where], str] = {}

    def owner_of(key: str, one: Command) -> str | None:
        return next((owners[key, w] for w in places(one) if (key, w) in owners), None)

    for name, asked in wanted.items():
        chosen, free = commands[name], []
        for key in dict.fromkeys(asked):
            if other := owner_of(key, chosen):
                problems.append(
                    f"{shown_key(key)} is bound twice, to {_called(commands[other])} and to "
                    f"{_called(chosen)}: {other} has it"
                )
            else:
                free.append(key)
                owners.update({(key, where): name for where in places(chosen)})
        if free or not asked:
            keys[name] = free
    lost: dict[tuple[str, str], list[str]] = {}
    for one in commands.values():
        taken = {key: owner for key in one.keys.split(",") if (owner := owner_of(key, one))}
        if one.id in keys or not taken:
            continue
        keys[one.id] = [key for key in one.keys.split(",") if key not in taken]
        rest = ", ".join(map(shown_key, keys[one.id]))
        for item in taken.items():
            lost.setdefault(item, []).append(f"{_called(one)}, which has {rest or 'no key'} left")
    problems += [
        f"{shown_key(key)} is {_called(commands[name])} now, and not {'; nor '.join(others)}"
        for (key, name), others in lost.items()
    ]
    return {name: ",".join(own) or UNBOUND for name, own in keys.items()}, tuple(problems)


def _called(one: Command) -> str:
    """A command by its title, and by the name that a configuration has for it."""
    return f"{one.title} ({one.id})"


def shown(one: Command, changed: Mapping[str, str]) -> str:
    """The key of a command as it is shown; "" if it has none."""
    keys = changed.get(one.id)
    if keys is None:
        return one.shown
    return "" if keys == UNBOUND else shown_key(keys.split(",")[0])
