"""Reads a Chrome trace as Kineto writes it, event by event: a large one never lies in memory whole.

The trace is input like any other: what is damaged in it is passed over and counted.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator, Mapping

from inspector.errors import Unreadable

CHUNK = 4 << 20
# No event of Kineto's is a hundredth as long; one that is longer is damaged.
LONGEST_EVENT = 1 << 20
# More events are not read: 5 million fill about a gigabyte of memory here.
MOST_EVENTS = 5_000_000
# As long as the most events could be; what is longer was not written by Kineto.
MOST_TEXT = MOST_EVENTS * 4096
_BEGIN = re.compile(r'"traceEvents"\s*:\s*\[')
_SKIPPED = re.compile(r"[\s,]*")
_NEXT = re.compile(r"\n[^\S\n]*+\{\s*+\"ph\"")


class Trace:
    """The events of one trace; ``header`` and the counts are known once they have been read.

    ``header`` is what stands before the events (``deviceProperties``, ``schemaVersion`` …),
    ``damaged`` how many events could not be read, ``cut`` whether there were more than are read.
    """

    def __init__(self, data: bytes) -> None:
        """``data``: the file's content, compressed by gzip or not."""
        raw = io.BytesIO(data)
        packed = data[:2] == b"\x1f\x8b"
        self._text = io.TextIOWrapper(
            gzip.GzipFile(fileobj=raw) if packed else raw, "utf-8", "surrogateescape"
        )
        self.header: Mapping[str, object] = {}
        self.damaged = 0
        self.cut = False
        self._length = 0

    def events(self) -> Iterator[dict[str, object]]:
        """Every event, in the file's order. Raises ``Unreadable`` for what is no trace."""
        held = self._begin()
        decode = json.JSONDecoder(strict=False).raw_decode
        at = count = 0
        while True:
            found = _SKIPPED.match(held, at)
            at = found.end() if found else at
            try:
                event, end = decode(held, at)
            except (ValueError, RecursionError):
                if held.startswith("]", at):
                    return
                more = self._more()
                if more and len(held) - at < LONGEST_EVENT:
                    held, at = held[at:] + more, 0
                    continue
                held, at = held + more, at
                after = _NEXT.search(held, at + 1)
                self.damaged += 1
                if after is None:
                    return
                at = after.start()
                continue
            at = end
            if at > CHUNK:
                held, at = held[at:], 0
            if isinstance(event, dict):
                if count >= MOST_EVENTS:
                    self.cut = True
                    return
                count += 1
                yield event

    def _begin(self) -> str:
        held = ""
        while (found := _BEGIN.search(held)) is None:
            more = self._more()
            if not more or len(held) > 16 * CHUNK:
                raise Unreadable("it is no Chrome trace: it has no traceEvents")
            held += more
        try:
            header = json.loads(held[: found.end()] + "]}", strict=False)
        except (ValueError, RecursionError):
            header = {}
        self.header = header if isinstance(header, dict) else {}
        return held[found.end() :]

    def _more(self) -> str:
        try:
            more = self._text.read(CHUNK)
        except (OSError, EOFError, zlib.error) as error:
            raise Unreadable(f"the trace is damaged: {error}") from None
        self._length += len(more)
        if self._length > MOST_TEXT:
            raise Unreadable("the trace is too long to be real")
        return more
