"""Messages of compilers in events, and the columns of ``ptxview compile``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath

from inspector.base.model import Compilation, CompilerMessage, Variant
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


# -- messages --------------------------------------------------------------------------------------

MAX_PRINTED_MESSAGES = 200
"""Messages of one run that are kept."""
MAX_MESSAGE_CHARS = 2000
"""Characters of one message."""

_SEVERITY = (
    r"(?P<severity>catastrophic error|fatal error|internal error|error|warning|remark|note|fatal)"
)
_EDG = re.compile(
    rf"\A(?P<file>[^\s(][^(\n]*+)\((?P<line>\d{{1,9}}+)\): {_SEVERITY}(?: #[\w-]++)?: "
    r"(?P<message>.+)",
    re.IGNORECASE,
)
_CLANG = re.compile(
    rf"\A(?P<file>[^\s:][^:\n]*+):(?P<line>\d{{1,9}}+):(?:(?P<column>\d{{1,9}}+):)? "
    rf"{_SEVERITY}: (?P<message>.+)"
)
_MLIR = re.compile(
    rf'\Aloc\("(?P<file>[^"\n]++)":(?P<line>\d{{1,9}}+):(?P<column>\d{{1,9}}+)\): '
    rf"{_SEVERITY}: (?P<message>.+)"
)
_PTXAS = re.compile(
    r"\A(?P<tool>ptxas)[\w-]*+(?: (?P<file>[^;\n]+), line (?P<line>\d{1,9}+);)?\s++"
    r"(?P<severity>error|warning|fatal|info)\s*+: (?P<message>.+)"
)
_TOOL = re.compile(
    r"\A(?P<tool>nvcc|nvlink|cicc|cudafe\+\+)\s++(?P<severity>error|warning|fatal)\s*+: "
    r"(?P<message>.+)"
)
_BARE = re.compile(
    r"\A(?:[\w+-]++: )?(?P<severity>fatal error|error|warning): (?P<message>.+)", re.IGNORECASE
)
_FORMS = (_PTXAS, _TOOL, _MLIR, _EDG, _CLANG, _BARE)
_CARET = re.compile(r"\s*\^[~\s]*$")
# What ptxas says of itself is of figures, which are read elsewhere, but for this.
_LOSS = "Potential Performance Loss"
_ABORTED = ("Ptx assembly aborted due to errors",)
_SEVERITIES = {"remark": "note", "note": "note", "info": "note", "warning": "warning"}

Line = Callable[[str, int], str | None]
"""The text of a line of a file that a compiler named; None where it is not known."""


def messages_of(said: str, tool: str, line_of: Line) -> tuple[CompilerMessage, ...]:
    """The messages in what a compiler printed, in its order, each once.

    ``tool`` printed it, where a line does not say which tool did. ``line_of`` reads the lines that
    are named.
    """
    unique = dict.fromkeys(_messages(said.splitlines(), tool, line_of))
    return tuple(unique)[:MAX_PRINTED_MESSAGES]


def _messages(rows: Sequence[str], tool: str, line_of: Line) -> Iterator[CompilerMessage]:
    for index, row in enumerate(rows):
        match = next((m for form in _FORMS if (m := form.match(row.strip())) is not None), None)
        if match is None:
            continue
        fields = match.groupdict()
        severity = str(fields["severity"]).lower()
        text = str(fields["message"]).strip()[:MAX_MESSAGE_CHARS]
        if severity == "info":
            if _LOSS not in text:
                continue
            severity = "warning"
        if text in _ABORTED:
            continue
        file = fields.get("file")
        number = int(fields["line"]) if fields.get("line") else None
        source = line_of(file, number) if file and number else None
        column = int(fields["column"]) if fields.get("column") else _column(rows, index, source)
        yield CompilerMessage(
            severity=_SEVERITIES.get(severity, "error"),
            message=text,
            tool=str(fields.get("tool") or tool),
            file=file,
            line=number,
            column=column,
            text=None if source is None else source.rstrip()[:MAX_MESSAGE_CHARS],
        )


def _column(rows: Sequence[str], index: int, source: str | None) -> int | None:
    """The column of the caret beneath a message in the line of the file.

    The front end prints the line with a margin, so that the caret is measured from the
    first character that is no blank.
    """
    if index + 2 >= len(rows) or not _CARET.fullmatch(rows[index + 2]):
        return None
    printed, caret = rows[index + 1], rows[index + 2].index("^")
    margin = len(printed) - len(printed.lstrip())
    own = printed if source is None else source
    offset = caret - margin
    return len(own) - len(own.lstrip()) + offset + 1 if offset >= 0 else None


def first_error(messages: Sequence[CompilerMessage]) -> str | None:
    """The first error in a sentence, with its place; None without errors."""
    error = next((m for m in messages if m.severity == "error"), None)
    return None if error is None else error.sentence


def renamed(
    messages: Sequence[CompilerMessage], names: dict[str, str]
) -> tuple[CompilerMessage, ...]:
    """The messages with files of a compiler's own by other names; ``names`` are by file name."""
    return tuple(
        replace(m, file=names.get(PurePath(m.file).name, m.file)) if m.file else m for m in messages
    )
