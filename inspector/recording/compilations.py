"""What ``ptxview compile`` tried, of its events: a file, a target, options, and what was said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from inspector.model import Compilation, CompilerMessage, Variant
from inspector.recording.facts import as_int, as_map, as_seconds, as_text

Event = Mapping[str, object]
SEVERITIES = ("error", "warning", "note")
MOST_MESSAGES = 200
"""Messages of one compilation that are kept; a compiler may have thousands to say."""


def message_event(message: CompilerMessage) -> dict[str, object]:
    """A message as events have it."""
    values = {name: getattr(message, name) for name in CompilerMessage.__dataclass_fields__}
    return {name: value for name, value in values.items() if value is not None}


def from_event(event: Event) -> Compilation | None:
    """The compilation of an event; None if it names no file or target."""
    file, target = as_text(event.get("file")), as_text(event.get("target"))
    if file is None or target is None:
        return None
    listed, symbols = event.get("messages"), event.get("symbols")
    return Compilation(
        file=file,
        language=as_text(event.get("language")) or "",
        target=target,
        options=as_text(event.get("options")) or "",
        kernel=as_text(event.get("kernel")),
        config=as_map(event.get("config")),
        signature=as_text(event.get("signature")) or "",
        hash=as_text(event.get("hash")),
        symbols=tuple(map(str, symbols)) if isinstance(symbols, list | tuple) else (),
        seconds=as_seconds(event.get("seconds")),
        tool=as_text(event.get("tool")),
        failed=as_text(event.get("failed")),
        messages=messages_from(listed),
    )


def messages_from(listed: object) -> tuple[CompilerMessage, ...]:
    """The messages of a list as events have it; none of anything else."""
    return tuple(_messages(listed)) if isinstance(listed, list | tuple) else ()


def _messages(listed: Iterable[object]) -> Iterable[CompilerMessage]:
    for item in list(listed)[:MOST_MESSAGES]:
        fields = as_map(item)
        severity, message = str(fields.get("severity")), as_text(fields.get("message"))
        if message is None:
            continue
        yield CompilerMessage(
            severity=severity if severity in SEVERITIES else "note",
            message=message,
            tool=as_text(fields.get("tool")) or "",
            file=as_text(fields.get("file")),
            line=as_int(fields.get("line")),
            column=as_int(fields.get("column")),
            text=as_text(fields.get("text")),
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
