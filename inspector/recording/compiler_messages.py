"""Reads the messages of compilers: ptxas, nvcc and its front end, clang, MLIR."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath

from msgspec.structs import asdict, replace

from inspector.base.model import CompilerMessage
from inspector.recording.decoding import as_map, checked

SEVERITIES = ("error", "warning", "note")
MAX_MESSAGES = 200
"""Messages of one run or compilation that are kept."""


def message_event(message: CompilerMessage) -> dict[str, object]:
    return {name: value for name, value in asdict(message).items() if value is not None}


def messages_from(listed: object) -> tuple[CompilerMessage, ...]:
    items = listed[:MAX_MESSAGES] if isinstance(listed, list | tuple) else ()
    messages = []
    for item in items:
        message, _ = checked({"tool": "", **as_map(item)}, CompilerMessage)
        if message is not None and message.severity not in SEVERITIES:
            message = replace(message, severity="note")
        if message is not None:
            messages.append(message)
    return tuple(messages)


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
# What ptxas says of itself is of figures, which are read elsewhere, but for this.
_LOSS = "Potential Performance Loss"
_ABORTED = "Ptx assembly aborted due to errors"
_SEVERITIES = {"remark": "note", "note": "note", "info": "warning", "warning": "warning"}

Line = Callable[[str, int], str | None]
"""The text of a line of a file that a compiler named; None where it is not known."""


def messages_of(output: str, tool: str, line_of: Line) -> tuple[CompilerMessage, ...]:
    """The messages in what a compiler printed, in its order, each once. ``tool`` printed it, where
    a line does not say which tool did. ``line_of`` reads the lines that are named."""
    return tuple(dict.fromkeys(_messages(output.splitlines(), tool, line_of)))[:MAX_MESSAGES]


def _messages(rows: Sequence[str], tool: str, line_of: Line) -> Iterator[CompilerMessage]:
    for index, row in enumerate(rows):
        match = next((m for form in _FORMS if (m := form.match(row.strip())) is not None), None)
        if match is None:
            continue
        fields = match.groupdict()
        severity = str(fields["severity"]).lower()
        text = str(fields["message"]).strip()[:MAX_MESSAGE_CHARS]
        if (severity == "info" and _LOSS not in text) or text == _ABORTED:
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
    """The column of the caret beneath a message in the line of the file. The front end prints the
    line with a margin, so that the caret is measured from the first character that is no blank."""
    if index + 2 >= len(rows) or not re.fullmatch(r"\s*+\^[~\s]*+$", rows[index + 2]):
        return None
    printed, caret = rows[index + 1], rows[index + 2].index("^")
    margin = len(printed) - len(printed.lstrip())
    line = printed if source is None else source
    offset = caret - margin
    return len(line) - len(line.lstrip()) + offset + 1 if offset >= 0 else None


def first_error(messages: Sequence[CompilerMessage]) -> str | None:
    return next((m.sentence for m in messages if m.severity == "error"), None)


def renamed(
    messages: Sequence[CompilerMessage], names: dict[str, str]
) -> tuple[CompilerMessage, ...]:
    """The messages with files of a compiler's own by other names; ``names`` are by file name."""
    return tuple(
        replace(m, file=names.get(PurePath(m.file).name, m.file)) if m.file else m for m in messages
    )
