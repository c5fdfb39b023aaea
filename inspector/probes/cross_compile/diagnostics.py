"""What an error of Triton's, or what LLVM and ptxas print, says of which line."""

import linecache
import os
import re
from collections.abc import Iterator
from typing import Any

# MLIR writes an operation's location before what it says of it: a place, a name with a place, or
# the place in a function with that of its call.
_PRINTED = re.compile(
    r'(?:loc\((?:callsite\()?(?:"[^"\n]*"\((?:callsite\()?)?")?(?P<file>[^\s:"(][^:"\n]*)"?'
    r":(?P<line>\d+):(?P<column>\d+)(?:\)[^\n]*?)?: "
    r"(?P<severity>fatal error|error|warning|remark|note): (?P<message>.+)"
)
# What ptxas says of itself is of figures, but for this.
_PTXAS = re.compile(
    r"ptxas[\w-]*(?: .+, line (?P<line>\d+);)?\s+"
    r"(?P<severity>error|warning|fatal|info(?=\s*: .*Potential Performance Loss))\s*: "
    r"(?P<message>.+)"
)
_ABORTED = "Ptx assembly aborted due to errors"
SEVERITIES = {"info": "warning", "warning": "warning", "remark": "note", "note": "note"}
MAX_MESSAGE_CHARACTERS = 2000
MAX_MESSAGES = 100


def message(severity: str, text: str, tool: str = "triton", /, **place: Any) -> dict[str, Any]:
    """A message as events have it; ``place``: its file, line, column and text, where known."""
    fields = {"severity": severity, "message": text.strip()[:MAX_MESSAGE_CHARACTERS], "tool": tool}
    return fields | {name: value for name, value in place.items() if value is not None}


def from_error(error: BaseException, fn: Any, names: dict[str, str]) -> dict[str, Any]:
    """An exception as one message, at the innermost line that it knows of the kernel."""
    innermost = error
    cause = error.__cause__
    while cause is not None:
        innermost = innermost if getattr(cause, "node", None) is None else cause
        cause = cause.__cause__
    node = getattr(innermost, "node", None)
    text = _sentence(innermost if node is not None else error)
    if node is None or not hasattr(node, "lineno"):
        return message("error", text)
    function = _function(fn, getattr(innermost, "src", None)) or fn
    code = getattr(getattr(function, "fn", None), "__code__", None)
    if code is None:
        return message("error", text)
    first = getattr(function, "starting_line_number", None) or code.co_firstlineno
    # The text of a kernel begins at its `def`, and the file's line at its first decorator.
    rows = getattr(function, "raw_src", None) or [""]
    first += next((n for n, row in enumerate(rows) if re.match(r"\s*(async\s+)?def\s", row)), 0)
    line = first + node.lineno - 1
    source = linecache.getline(code.co_filename, line).rstrip("\n")
    # A kernel's text is without the indent that it has in its file.
    row = source if node.lineno == 1 else rows[0]
    indent = len(row) - len(row.lstrip())
    return message(
        "error",
        text,
        file=names.get(code.co_filename, code.co_filename),
        line=line,
        column=node.col_offset + indent + 1,
        text=source or None,
    )


def _function(fn: Any, src: str | None) -> Any:
    """The function of Triton's that has this text: the kernel, or one that it calls."""
    visited: set[int] = set()
    waiting = [fn]
    while waiting and src is not None:
        candidate = waiting.pop()
        if id(candidate) in visited:
            continue
        visited.add(id(candidate))
        if getattr(candidate, "src", None) == src or getattr(candidate, "_src", None) == src:
            return candidate
        python = getattr(candidate, "fn", None)
        code = getattr(python, "__code__", None)
        names = code.co_names if code is not None else ()
        namespace = getattr(python, "__globals__", {})
        waiting += [
            namespace[n] for n in names if hasattr(namespace.get(n), "starting_line_number")
        ]
    return None


def _sentence(error: BaseException) -> str:
    """An error's own words, without the text that it quotes."""
    text = getattr(error, "error_message", None)
    if not text:
        text = str(error)
        if getattr(error, "node", None) is not None:
            text = text.rpartition("^\n")[2] or text
    if "`ptxas` stderr:" in str(error):
        messages = list(parse_output(str(error), {}, {}))
        if messages:
            return f"ptxas: {messages[0]['message']}"
    cause = error.__cause__ or error.__context__
    if not str(text).strip() and cause is not None:
        text = str(cause)
    first = next((row for row in str(text).splitlines() if row.strip()), "")
    if first and getattr(error, "node", None) is not None:
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def parse_output(
    text: str, names: dict[str, str], texts: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """The messages in what was printed. ``names``: files as the user calls them, ``texts``:
    content by those names, with that of ``ptx``."""
    reported = set()
    for row in text.splitlines()[:20_000]:
        match = _PTXAS.match(row.strip()) or _PRINTED.match(row.strip())
        if match is None or match["message"] == _ABORTED:
            continue
        fields = match.groupdict()
        line, column = (int(fields[n]) if fields.get(n) else None for n in ("line", "column"))
        tool = "ptxas"
        file = "ptx" if line is not None else None
        if "file" in fields:
            tool = "triton"
            file = names.get(match["file"], match["file"])
        if (file, line, match["message"]) in reported:
            continue
        reported.add((file, line, match["message"]))
        if len(reported) > MAX_MESSAGES:
            return
        severity = SEVERITIES.get(match["severity"], "error")
        source_line = None if file is None or line is None else _line(file, line, texts)
        place = {"file": file, "line": line, "column": column, "text": source_line}
        yield message(severity, match["message"], tool, **place)


def from_failure(
    error: BaseException, fn: Any, log: str, names: dict[str, str], texts: dict[str, str]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The messages of a compilation that failed, and the first that is an error.

    What compilers printed says more than the exception that ends it, unless that has a line.
    """
    exception_message = from_error(error, fn, names)
    messages = list(parse_output(log, names, texts))
    if "line" in exception_message or not any(m["severity"] == "error" for m in messages):
        messages.insert(0, exception_message)
    return messages, next(m for m in messages if m["severity"] == "error")


def _line(file: str, line: int, texts: dict[str, str]) -> str | None:
    if file in texts:
        rows = texts[file].splitlines()
        return rows[line - 1].rstrip() if 0 < line <= len(rows) else None
    return linecache.getline(file, line).rstrip("\n") or None if os.path.isfile(file) else None
