"""Messages of compilers in events, and the columns of ``ptxview compile``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from inspector.model import Compilation, CompilerMessage, Variant
from inspector.recording.facts import as_map, decoded

SEVERITIES = ("error", "warning", "note")
MAX_MESSAGES = 200
"""Messages of one compilation that are kept."""


def message_event(message: CompilerMessage) -> dict[str, object]:
    """A message as events have it."""
    values = {name: getattr(message, name) for name in CompilerMessage.__dataclass_fields__}
    return {name: value for name, value in values.items() if value is not None}


def messages_from(listed: object) -> tuple[CompilerMessage, ...]:
    """The messages of a list as events have it; none of anything else."""
    items = listed[:MAX_MESSAGES] if isinstance(listed, list | tuple) else ()
    read = (decoded({"tool": "", **as_map(i)}, CompilerMessage, lambda _: None) for i in items)
    return tuple(
        one if one.severity in SEVERITIES else replace(one, severity="note")
        for one in read
        if one is not None
    )


class Columns:
    """What tells compiled variants from each other: targets and options as they were asked for."""

    def __init__(self, compilations: Iterable[Compilation]) -> None:
        self._of: dict[tuple[str, str], list[Compilation]] = {}
        targets: set[str] = set()
        options: set[str] = set()
        for one in compilations:
            targets.add(one.target)
            options.add(one.options)
            names = one.symbols or ((one.kernel,) if one.kernel else ())
            for symbol in names if one.hash else ():
                self._of.setdefault((one.hash or "", symbol), []).append(one)
        self._several = (len(targets) > 1, len(options) > 1)

    def told(self, variant: Variant) -> Variant:
        """A variant whose configuration says for what it was compiled, where that differs.

        One that came of several compilations alike says all of them.
        """
        mine = self._of.get((variant.hash, variant.symbol))
        if not mine:
            return variant
        said: dict[str, object] = {}
        if self._several[0]:
            said["target"] = ", ".join(dict.fromkeys(one.target for one in mine))
        if self._several[1]:
            each = dict.fromkeys(one.options or "(none)" for one in mine)
            said["options"] = " | ".join(each)
        return replace(variant, config={**said, **variant.config}) if said else variant
