"""The Python of a kernel that Triton compiled, cut out of what was recorded of its files."""

from collections.abc import Callable, Iterable, Mapping

from inspector.analysis.python_source import CutSource, cut_function
from inspector.base.errors import Unreadable
from inspector.base.grouping import by_key
from inspector.recording.contents import text_of
from inspector.recording.decoding import as_map, as_text
from inspector.recording.layout import Events


class KernelSources:
    """The recorded sources of compilations by the hash of a variant, and all files of Python."""

    def __init__(self, events: Events) -> None:
        self._events = events
        digests: dict[str, object] = {}
        compilations = []
        for event in events.events:
            if event.get("event") in ("triton", "triton_failed"):
                source = as_map(event.get("source"))
                compilations.append((str(event.get("hash")), source))
                digests |= {
                    str(path): digest for path, digest in as_map(source.get("files")).items()
                }
                if source.get("file"):
                    digests[str(source["file"])] = source.get("blob")
            elif event.get("event") == "user_file":
                digests[str(event.get("path"))] = event.get("blob")
        self._by_hash = by_key(compilations)
        self._digests = {p: digest for p, digest in digests.items() if p.endswith(".py")}
        self._files: dict[str, str] | None = None

    def cut(
        self, variant_hash: str, symbol: str, functions_in: Callable[[str], Iterable[str]]
    ) -> tuple[CutSource, str] | None:
        """A kernel with all that it needs, and the path of its file; None without its text.

        ``functions_in`` gives the names of functions of a text that were passed to the kernel.
        Raises as ``cut_function`` does, and ``Unreadable`` where a value that was compiled in is an
        object of the program's.
        """
        sources = self._by_hash.get(variant_hash, [])
        # A file's text before the kernel's own lines, where the file could not be read.
        for source in sorted(sources, key=lambda source: source.get("blob") is None):
            path = as_text(source.get("file")) or ""
            for name, kind in as_map(source.get("objects")).items():
                raise Unreadable(f"its argument {name} is a {kind}, whose value was not recorded")
            text = self._text(source.get("blob")) or self._text(source.get("cut"))
            if not text:
                continue
            first = source.get("first") if source.get("blob") else 1
            cut_out = cut_function(
                text,
                path,
                as_text(source.get("name")) or symbol,
                first if isinstance(first, int) else None,
                recorded=_recorded_globals(source),
                other_files={p: t for p, t in self._all_files().items() if p != path},
                extra_functions=functions_in(text),
            )
            return cut_out, path
        return None

    def _text(self, digest: object) -> str:
        return text_of(self._events.blob(digest))

    def _all_files(self) -> dict[str, str]:
        if self._files is None:
            texts = {path: self._text(digest) for path, digest in self._digests.items()}
            self._files = {path: text for path, text in texts.items() if text}
        return self._files


def _recorded_globals(source: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Globals of a kernel and of what it calls as its compile saw them, by file and name."""
    recorded = {}
    for path, rows in as_map(source.get("globals")).items():
        values = as_map(rows).items()
        recorded[path] = {n: v for n, v in values if n.isidentifier() and _is_literal(v)}
    return recorded


def _is_literal(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
