"""Which of the user's lines a generated kernel was made from.

Inductor's comments in ``output_code`` name the nodes of the last graph that went into a kernel;
the graphs' own texts, as torch's trace has them, name the user's line above the nodes that came
of it::

    # File: /home/me/model.py:9 in forward, code: y = torch.sin(x) * x
    sin: "f32[64, 256][256, 1]cuda:0" = torch.ops.aten.sin.default(primals_1)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from inspector.capture.facts import as_map, as_text, text_of
from inspector.capture.output_code import Comment, KernelText
from inspector.model import Content, Fusion, MadeFrom, StageFile

Event = Mapping[str, object]
Blob = Callable[[object], Content | None]
Lines = Mapping[str, tuple[str, int, str] | None]
"""Node of a graph to the file, line and code that it came of, None where the graph names none."""

_FILE = "# File: "
_NODE = re.compile(r"\s{4,}(\w{1,400})(?:: \"[^\"\n]*\")? = ")
# The graphs whose nodes the fragments in output_code name, the nearest first.
AFTER = ("inductor_post_grad_graph", "before_post_grad_graph")


def graph_lines(text: str) -> Lines:
    """The user's line of each node of a printed graph. Never raises."""
    out: dict[str, tuple[str, int, str] | None] = {}
    here: tuple[str, int, str] | None = None
    for line in text.split("\n"):
        bare = line.lstrip()
        if bare.startswith(_FILE):
            here = _place(bare[len(_FILE) :])
        elif bare.startswith("# No stacktrace"):
            here = None
        elif found := _NODE.match(line):
            out.setdefault(found[1], here)
    return out


def _place(said: str) -> tuple[str, int, str] | None:
    """Of ``/a/b.py:9 in forward, code: y = x``."""
    where, _, code = said.partition(", code: ")
    path, _, number = where.partition(" in ")[0].rpartition(":")
    return (path, int(number), code) if path and number.isdecimal() and len(number) < 10 else None


@dataclass
class Origins:
    """The graphs' texts of a recording, in order, and the user's files that they name."""

    blob: Blob
    _texts: dict[object, list[tuple[int, str, object]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _files: dict[str, Content] = field(default_factory=dict)
    _memo: dict[object, Lines] = field(default_factory=dict)

    def take(self, event: Event, at: int) -> None:
        """Keep what an event has of graphs and the user's files; ``at`` its place among all."""
        if event.get("event") == "graph_text":
            kind = as_text(event.get("kind")) or ""
            self._texts[_frame(event)].append((at, kind, event.get("blob")))
        elif event.get("event") == "user_file":
            path, content = as_text(event.get("path")), self.blob(event.get("blob"))
            if path and content is not None:
                self._files[path] = content
        elif event.get("event") == "triton":
            # A file with kernels of the user's own may hold the model too.
            source = as_map(event.get("source"))
            path, content = as_text(source.get("file")), self.blob(source.get("blob"))
            if path and content is not None:
                self._files.setdefault(path, content)

    def fusion(self, graph: Event, at: int, kernel: KernelText, aot: str | None) -> Fusion:
        """What a kernel of the graph that was compiled ``at`` this place was made from."""
        comment = kernel.comment
        placed = self._placed(graph, at, comment, aot)
        targets: dict[tuple[str, int, str], list[str]] = defaultdict(list)
        unplaced: list[str] = []
        for name, target in comment.nodes:
            if place := placed.get(name):
                targets[place].append(target)
            elif "." in target and not target.startswith("operator."):
                unplaced.append(target)
        if not comment.nodes:
            # An extern kernel, or a version that prints no fragment: the program's own names.
            for name in comment.names:
                if place := placed.get(name):
                    targets[place].extend(())
        made = tuple(MadeFrom(f, n, code, tuple(ops)) for (f, n, code), ops in targets.items())
        defined = () if kernel.line is None else (kernel.line,)
        return Fusion(comment.ops, made, tuple(unplaced), (*defined, *kernel.launches))

    def source(self, fusion: Fusion) -> StageFile | None:
        """The file that most of a kernel was made from, where it was recorded."""
        count: dict[str, int] = defaultdict(int)
        for made in fusion.made_from:
            if made.file in self._files:
                count[made.file] += 1
        if not count:
            return None
        path = max(count, key=lambda p: count[p])
        return StageFile(self._files[path], path, "the model's file")

    def _placed(self, graph: Event, at: int, comment: Comment, aot: str | None) -> Lines:
        """The user's lines by node, as the graph nearest to the code has them."""
        part = (aot or "").partition("_")[2]
        wanted = [*AFTER, f"aot_{part}_graph"] if part else list(AFTER)
        before = [t for t in self._texts.get(_frame(graph), ()) if t[0] <= at]
        out: Lines = {}
        for kind in (*wanted, "aot_joint_graph"):
            latest = next((t for t in reversed(before) if t[1] == kind), None)
            if latest is not None:
                out = {**self._lines(latest[2]), **out}
        dynamo = next((t for t in reversed(before) if t[1] == "dynamo_output_graph"), None)
        if dynamo is not None and (not out or not comment.nodes):
            lines = self._lines(dynamo[2])
            out = {**out, **{n: lines[n] for n in comment.names if n in lines}}
        return out

    def _lines(self, digest: object) -> Lines:
        key = digest if isinstance(digest, str) else id(digest)
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = graph_lines(text_of(self.blob(digest)))
        return known


def joined(fusions: Iterable[Fusion]) -> Fusion | None:
    """Of a kernel that several graphs share: all that each was made from."""
    ops: dict[str, None] = {}
    made: dict[tuple[str, int], MadeFrom] = {}
    unplaced: dict[str, None] = {}
    calls: tuple[int, ...] = ()
    found = False
    for fusion in fusions:
        calls = calls if found else fusion.calls
        found = True
        ops.update(dict.fromkeys(fusion.ops))
        unplaced.update(dict.fromkeys(fusion.unplaced))
        for each in fusion.made_from:
            known = made.setdefault((each.file, each.line), each)
            if known is not each:
                both = tuple(dict.fromkeys((*known.targets, *each.targets)))
                made[each.file, each.line] = MadeFrom(known.file, known.line, known.code, both)
    return Fusion(tuple(ops), tuple(made.values()), tuple(unplaced), calls) if found else None


def _frame(event: Event) -> tuple[str, ...]:
    return tuple(str(event.get(k)) for k in ("pid", "frame_id", "frame_compile_id"))
