"""All commands: keys, titles, help, actions and places.

Key bindings, the footer, the command palette and the help are all made from ``TABLE``. To add a
command, add a row to ``inspector/reference/commands.toml`` and the ``action_…`` method that it
names, on the widget that ``where`` names.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from msgspec import Struct
from textual.binding import Binding, BindingType
from textual.keys import KEY_NAME_REPLACEMENTS, Keys, _character_to_key, key_to_character

from inspector.reader.tables import table


class KeyContext(Enum):
    """Which widget has the action; its value heads the section of the help."""

    MOVE = "Moving and leaving"
    SCREEN = "Everywhere"
    PANE = "In a pane"
    TREE = "In the tree"
    DIFF = "Comparing two variants (d, d, D)"
    VARIANTS = "In the table of variants (V)"
    TIMING = "Taking a time (t)"
    STEP = "Running a block, step by step (x)"
    PASSES = "Pass by pass (Z)"
    TRYING = "Trying an edited stage (E)"
    VERIFYING = "Comparing kernels with their operators"
    OVER = "On a screen over the kernels"


class Command(Struct, frozen=True):
    """One command.

    ``id`` is stable: keys can be rebound by it. ``keys`` are Textual's names, the first is the one
    shown. ``footer`` is its word in the footer, "" if it has none.
    """

    id: str
    keys: str
    shown: str
    context: KeyContext
    action: str
    title: str
    help: str
    footer: str = ""


UNBOUND = "unbound"

MODIFIERS = ("ctrl", "alt", "shift")
_KEY = re.compile(rf"((?:(?:{'|'.join(MODIFIERS)})\+)*)(.|\w+)", re.IGNORECASE | re.DOTALL)
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
    """Textual's name of a key written as ``/``, ``ctrl+x`` or ``f5``; None if invalid."""
    match = _KEY.fullmatch(text)
    if match is None or (len(match[2]) == 1 and not match[2].isprintable()):
        return None
    modifiers = set(match[1].lower().split("+"))
    last = match[2]
    if len(last) > 1:
        last = last.lower()
        character = key_to_character(_REPLACED.get(last, last))
        if last not in _NAMES and (character is None or _character_to_key(character) != last):
            return None
    else:
        if "shift" in modifiers and last.isalpha():
            modifiers.discard("shift")
            last = last.upper()
        last = _character_to_key(last.lower() if "ctrl" in modifiers else last)
    return "+".join([*(modifier for modifier in MODIFIERS if modifier in modifiers), last])


def shown_key(key: str) -> str:
    """A key for the footer and the help: ``^x``, ``⇧Tab``, ``?``, ``F5``."""
    *modifiers, last = key.split("+")
    character = last if len(last) == 1 else key_to_character(_REPLACED.get(last, last)) or ""
    word = _SHORT.get(last) or (character if character.isprintable() else "")
    signs = {"ctrl": "^", "alt": "⌥", "shift": "⇧"}
    word = word or last.replace("_", " ").title()
    return "".join(signs.get(m, f"{m}+") for m in modifiers) + word


def _key_shown(keys: str) -> str:
    """The first key; an arrow with the letter that does the same; "" without one."""
    if not keys:
        return ""
    names = keys.split(",")
    arrow = names[0] in ("up", "down", "left", "right")
    return " ".join(map(shown_key, names[: 1 + arrow]))


def _command(row: list[str]) -> Command:
    """The command of a row of ``commands.toml``."""
    context, name, keys, *words = row
    return Command(name, keys, _key_shown(keys), KeyContext[context.upper()], *words)


_DATA = table("commands")
TABLE = tuple(map(_command, _DATA["table"]["commands"]))
MOVES: dict[KeyContext, tuple[str, ...]] = {
    KeyContext[context.upper()]: tuple(
        name for kind in kinds.split() for name in _DATA[kind].split()
    )
    for context, kinds in _DATA["moves"].items()
}
"""Commands that move, by the places that have them."""
TASKS: dict[str, str] = {
    name: task for task, names in _DATA["tasks"].items() for name in names.split()
}
"""What each command is for, by its id."""
MARKS: tuple[tuple[str, str], ...] = tuple(map(tuple, _DATA["signs"]["marks"]))
TITLES: dict[str, str] = _DATA["stages"]
"""Names of stages in the palette."""
SHARED: tuple[str, ...] = tuple(_DATA["shared"]["diff"])
BARE: tuple[str, ...] = tuple(_DATA["shared"]["work"])
BESIDE: tuple[str, ...] = tuple(_DATA["shared"]["step"])
FIRST_QUESTIONS: tuple[tuple[str, str, str, str], ...] = tuple(
    map(tuple, _DATA["first"]["questions"])
)
"""Questions of the help: the command that answers, how, and words by which each is found."""
LOOKED_FOR: dict[str, str] = {
    key: name for name, keys in _DATA["looked_for"].items() for key in keys.split()
}
"""Commands by a key that is not theirs, but that users of other tools may try."""
FOOTER: tuple[str, ...] = tuple(_DATA["footer"]["first"].split())
"""What the footer names first; ``stages`` are the digits."""

ALSO = {
    KeyContext.DIFF: SHARED,
    KeyContext.VARIANTS: BARE,
    KeyContext.TIMING: BARE,
    KeyContext.STEP: BESIDE,
    KeyContext.PASSES: BARE,
    KeyContext.TRYING: BARE,
    KeyContext.VERIFYING: BARE,
}
"""Commands of the main screen on the screens over it."""


def bindings(context: KeyContext) -> list[BindingType]:
    """The key bindings of the widget that has these actions."""
    names = [command.id for command in TABLE if command.context is context]
    names += MOVES.get(context, ())
    if context in ALSO:
        names.append("over.back")
    return bindings_of(tuple(names))


def of_screen(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of these commands that a screen has itself, and not the pane in it."""
    return tuple(c.id for c in TABLE if c.id in names and c.context is KeyContext.SCREEN)


def bindings_of(names: tuple[str, ...]) -> list[BindingType]:
    """With priority: else keys that arrive together would all go to the widget in focus.

    A command without a key is bound to none, so that the user can give it one.
    """
    return [
        Binding(
            command.keys or UNBOUND,
            command.action,
            command.title,
            show=False,
            priority=True,
            id=command.id,
        )
        for command in TABLE
        if command.id in names
    ]


def commands_in(contexts: tuple[KeyContext, ...]) -> tuple[Command, ...]:
    """The commands that work in any of these places."""
    names: set[str] = set()
    for context in contexts:
        names.update(MOVES.get(context, ()))
        if context in ALSO:
            names.update(("over.back", *ALSO[context]))
    return tuple(c for c in TABLE if c.context in contexts or c.id in names)


def footer(
    context: KeyContext,
    shown: Callable[[Command], str] = lambda listed_command: listed_command.shown,
) -> tuple[tuple[str, str, str], ...]:
    """(key, word, command id), the last kept longest; ``shown`` gives a command's key or ""."""
    commands = _footer_commands(context)
    keys = [(shown(listed), listed.footer, listed.id) for listed in commands]
    if ALSO.get(context) is not BARE:
        keys.insert(2, ("1-7", "code", STAGES))
    if context not in ALSO:
        order = {name: position for position, name in enumerate(FOOTER)}
        keys.sort(key=lambda key: order.get(key[2], len(FOOTER)))
    bound = [row for row in keys if row[0]]
    return tuple((key, word, "stage.1" if name == STAGES else name) for key, word, name in bound)


def _footer_commands(context: KeyContext) -> list[Command]:
    """The commands of a place that have a word in the footer; a screen's first."""
    alone = context in ALSO
    places = (context,) if alone else (context, KeyContext.SCREEN)
    commands = [listed for listed in commands_in(places) if listed.footer]
    if alone:
        commands.sort(key=lambda listed: (listed.id != "help", listed.context is not context))
        return commands
    return [listed for listed in commands if listed.id != "escape"]


STAGES = "stages"
"""What ``FOOTER`` calls the keys of all stages."""


def command(name: str) -> Command:
    return next(c for c in TABLE if c.id == name)


def places(command: Command) -> frozenset[KeyContext]:
    """Where the key of a command does something: two commands cannot share a key in one place."""
    contexts = {command.context}
    if command.context is KeyContext.SCREEN:
        contexts = {KeyContext.PANE, KeyContext.TREE}
    elif command.context is KeyContext.MOVE:
        contexts = {context for context, names in MOVES.items() if command.id in names}
    elif command.context is KeyContext.OVER:
        contexts = set(ALSO)
    contexts |= {context for context, names in ALSO.items() if command.id in names}
    return frozenset(contexts)


def rebind(requested: Mapping[str, tuple[str, ...]]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The keys of each command that changed, and what could not be done.

    A key that is asked for is taken from the command that has it; of two the first gets it.
    """
    keys: dict[str, list[str]] = {}
    owners: KeyOwners = {}
    problems = _assign_keys(requested, keys, owners)
    problems += _release_keys(keys, owners)
    changed = {name: ",".join(command_keys) or UNBOUND for name, command_keys in keys.items()}
    return changed, tuple(problems)


KeyOwners = dict[tuple[str, KeyContext], str]
"""Ids of commands by their keys and where these do something."""


def _owner_of(key: str, command: Command, owners: KeyOwners) -> str | None:
    """The command that has a key at one of the places of another."""
    for context in places(command):
        if (key, context) in owners:
            return owners[key, context]
    return None


def _assign_keys(
    requested: Mapping[str, tuple[str, ...]], keys: dict[str, list[str]], owners: KeyOwners
) -> list[str]:
    """Give each command the keys that no earlier one was given; return what is bound twice."""
    problems = []
    for name, requested_keys in requested.items():
        bound = command(name)
        free_keys = []
        for key in dict.fromkeys(requested_keys):
            owner = _owner_of(key, bound, owners)
            if owner:
                sentence = f"{shown_key(key)} is bound twice, to {owner} and to {name}"
                problems.append(f"{sentence}: {owner} has it")
            else:
                free_keys.append(key)
                owners.update(((key, context), name) for context in places(bound))
        if free_keys or not requested_keys:
            keys[name] = free_keys
    return problems


def _release_keys(keys: dict[str, list[str]], owners: KeyOwners) -> list[str]:
    """Take keys from the commands that had them; return which command lost what to which."""
    lost: dict[tuple[str, str], list[str]] = {}
    for command in TABLE:
        command_keys = list(filter(None, command.keys.split(",")))
        lost_keys = {}
        for key in command_keys:
            owner = _owner_of(key, command, owners)
            if owner:
                lost_keys[key] = owner
        if command.id not in keys and lost_keys:
            keys[command.id] = [key for key in command_keys if key not in lost_keys]
            remaining = ", ".join(map(shown_key, keys[command.id])) or "no key"
            for lost_key in lost_keys.items():
                lost.setdefault(lost_key, []).append(f"{command.id}, which has {remaining} left")
    return [
        f"{shown_key(key)} is {name} now, and not {'; nor '.join(replacements)}"
        for (key, name), replacements in lost.items()
    ]


def shown(command: Command, changed: Mapping[str, str]) -> str:
    keys = changed.get(command.id)
    if keys is None:
        return command.shown
    return "" if keys == UNBOUND else shown_key(keys.split(",")[0])


def with_key(
    key: str, contexts: Iterable[KeyContext], changed: Mapping[str, str]
) -> Command | None:
    """The command of any of these places that has a key."""
    for candidate in commands_in(tuple(contexts)):
        if key in changed.get(candidate.id, candidate.keys).split(","):
            return candidate
    return None


def why_nothing(key: str, changed: Mapping[str, str]) -> str:
    """What a key that does nothing at a place is answered with."""
    sign = shown_key(key)
    sought = LOOKED_FOR.get(key)
    if sought is not None:
        command_sought = command(sought)
        own_key = shown(command_sought, changed)
        where = f"its key is {own_key}" if own_key else "^p finds it by its name"
        return f"{sign} does nothing here. “{command_sought.title}”: {where}."
    elsewhere = with_key(key, KeyContext, changed)
    if elsewhere is not None and elsewhere.context is not KeyContext.SCREEN:
        return f"{sign} does nothing here. {elsewhere.context.value}: {elsewhere.title.lower()}."
    return f"{sign} does nothing here: ? lists the keys, ^p finds a command by its name."
