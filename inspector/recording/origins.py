"""Finds the user's lines from which a generated kernel was made.

Inductor's comments in ``output_code`` name the nodes of the last graph that went into a kernel;
the graphs' own texts, as torch's trace has them, name the user's line above the nodes that came
of it::

    # File: /home/me/model.py:9 in forward, code: y = torch.sin(x) * x
    sin: "f32[64, 256][256, 1]cuda:0" = torch.ops.aten.sin.default(primals_1)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from inspector.base.model import Content, Fusion, MadeFrom, Stage, StageFile
from inspector.recording.facts import as_map, as_text, text_of
from inspector.recording.output_code import Comment, KernelText
from inspector.system import files

Event = Mapping[str, object]
Blob = Callable[[object], Content | None]
Place = tuple[str, int, str]
"""File, line and code."""
Lines = Mapping[str, Place | None]
"""The place that each node of a graph came from, None if the graph names none."""

_FILE = re.compile(r"#(?: Annotation: .{0,4096}?)? (?:Backward of forward node: )?File: ")
"""Before a place: from torch 2.15 on a backward node is said to be of a forward node's."""
_NODE = re.compile(r"\s{4,}(\w{1,400})(?:: \"[^\"\n]*\")? = ")
_FRAME = re.compile(r'\s*File "([^"\n]{1,4096})", line (\d{1,9})')
RECENT = 64
"""Graphs whose lines are cached; a graph needs those of its frame, one after the other."""
STACKS = "inductor_provenance_tracking_kernel_stack_traces"
# The graphs whose nodes the fragments in output_code name, the nearest first.
AFTER = ("inductor_post_grad_graph", "before_post_grad_graph")
NODES, DYNAMO_NODES = "graph_nodes", "dynamo_nodes"
_WRITTEN = {Stage.IR_PRE_FUSION: "ir_pre_fusion", Stage.IR_POST_FUSION: "ir_post_fusion"}
AOT_INFERENCE = "aot_inference_graph"
# Functions of torch/_inductor/compile_fx.py and fx_passes, and what torch's trace has around them.
PASSES = (
    ("pre_grad_passes", "before_pre_grad_graph", "after_pre_grad_graph"),
    ("joint_graph_passes", "before_joint_graph", "after_joint_graph"),
    ("post_grad_passes", "before_post_grad_graph", "inductor_post_grad_graph"),
)
_TRACED = "torch's trace"


def graph_lines(text: str) -> Lines:
    """The user's line of each node of a printed graph. Never raises."""
    out: dict[str, Place | None] = {}
    place: Place | None = None
    for line in text.split("\n"):
        bare = line.lstrip()
        if bare.startswith("#") and (begins := _FILE.match(bare)) is not None:
            place = _place(bare[begins.end() :])
        elif bare.startswith("# No stacktrace"):
            place = None
        elif match := _NODE.match(line):
            out.setdefault(match[1], place)
    return out


def stack_places(text: str, kernel: str) -> list[Place]:
    """The innermost line of each stack that a kernel came from, in Inductor's provenance record.

    The record is JSON: ``{"triton_poi_fused_sin_0:1": ["  File \"m.py\", line 3, in f\n …"]}``.
    """
    try:
        record = files.parsed(text.encode("utf-8", "surrogateescape"))
    except (ValueError, files.TooLarge):
        return []
    out: dict[Place, None] = {}
    for key, stacks in as_map(record).items():
        if key.rpartition(":")[0] != kernel or not isinstance(stacks, list):
            continue
        for stack in stacks:
            rows = str(stack).split("\n")
            frames = [(n, m) for n, row in enumerate(rows) if (m := _FRAME.match(row))]
            if frames:
                n, frame = frames[-1]
                code = rows[n + 1].strip() if n + 1 < len(rows) else ""
                out[frame[1], int(frame[2]), code] = None
    return list(out)


def _place(text: str) -> Place | None:
    """The place in ``/a/b.py:9 in forward, code: y = x``; None if the text has another form."""
    where, _, code = text.partition(", code: ")
    path, _, number = where.partition(" in ")[0].rpartition(":")
    return (path, int(number), code) if path and number.isdecimal() and len(number) < 10 else None


def _renewed(lines: Lines, fresh: Lines) -> Lines:
    """``lines`` with places of another run replaced by this run's places with the same code."""
    places = {place for place in fresh.values() if place is not None}
    if not fresh or all(place is None or place in places for place in lines.values()):
        return lines
    by_code: dict[str, Place | None] = {}
    for place in places:
        by_code[place[2]] = None if place[2] in by_code else place
    by_name = {name: by_code.get(place[2]) for name, place in lines.items() if place is not None}
    return {name: place for name, place in by_name.items() if place is not None}


@dataclass
class Origins:
    """The graphs' texts of a recording, in order, and the user's files that they name."""

    blob: Blob
    _texts: dict[object, list[tuple[int, str, object]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _files: dict[str, Content] = field(default_factory=dict)
    # By digest or by id() of a content; the content is kept, so that its id is not reused.
    _memo: dict[object, tuple[object, Lines]] = field(default_factory=dict)

    def take(self, event: Event, index: int) -> None:
        """Keep the graphs and the user's files of an event; ``index``: its place among all."""
        if event.get("event") == "graph_text":
            kind = as_text(event.get("kind")) or ""
            # What is Inductor's own names the graph; a frame has one forward and one backward.
            kind += f" {event['graph']}" if isinstance(event.get("graph"), str) else ""
            self._texts[frame_of(event)].append((index, kind, event.get("blob")))
        elif event.get("event") in (NODES, DYNAMO_NODES):
            kind = f"{event.get('event')} {as_text(event.get('graph')) or ''}"
            self._texts[frame_of(event)].append((index, kind, event.get("blob")))
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

    def fusion(self, graph: Event, index: int, kernel: KernelText, aot: str | None) -> Fusion:
        """What a kernel was made from; ``index``: the place of the graph's event among all."""
        comment = kernel.comment
        placed = self._placed(graph, index, comment, aot)
        targets: dict[Place, list[str]] = defaultdict(list)
        unplaced: list[str] = []
        for name, target in comment.nodes:
            if place := placed.get(name):
                targets[place].append(target)
            elif "." in target and not target.startswith("operator."):
                unplaced.append(target)
        for place in self._stacks(graph, index, kernel.name):
            if not any(place[:2] == target[:2] for target in targets):
                targets[place].extend(())
        if not comment.nodes:
            # An extern kernel, or a version that prints no fragment: the program's own names.
            for name in comment.names:
                if place := placed.get(name):
                    targets[place].extend(())
        sources = tuple(MadeFrom(f, n, code, tuple(ops)) for (f, n, code), ops in targets.items())
        defined = () if kernel.line is None else (kernel.line,)
        return Fusion(comment.ops, sources, tuple(unplaced), (*defined, *kernel.launches))

    def stages(self, graph: Event, index: int, aot: str | None) -> dict[Stage, StageFile]:
        """The texts above a graph's ``output_code``, in the order of lowering."""
        texts = self._before(graph, index)
        part = (aot or "").partition("_")[2]
        kinds = {Stage.DYNAMO: "dynamo_output_graph", Stage.JOINT: "aot_joint_graph"}
        if part == "backward":
            kinds[Stage.BACKWARD] = "aot_backward_graph"
        else:
            kinds[Stage.FORWARD] = "aot_forward_graph" if part == "forward" else AOT_INFERENCE
        kinds[Stage.POST_GRAD] = "inductor_post_grad_graph"
        kinds |= {stage: f"{name} {aot or ''}".rstrip() for stage, name in _WRITTEN.items()}
        out: dict[Stage, StageFile] = {}
        for stage, kind in kinds.items():
            content = self._newest(texts, kind)
            if content is not None:
                made = "Inductor" if stage in _WRITTEN else _TRACED
                out[stage] = StageFile(content, None, made)
        return out

    def passes(
        self, graph: Event, index: int, aot: str | None
    ) -> tuple[tuple[str, Content, Content], ...]:
        """Inductor's passes on a graph: the name, the text before and the text after of each.

        Those before the graph was taken apart into forward and backward are the forward's.
        """
        texts = self._before(graph, index)
        backward = (aot or "").partition("_")[2] == "backward"
        out = []
        for name, before, after in PASSES[2:] if backward else PASSES:
            a, b = self._newest(texts, before), self._newest(texts, after)
            if a is not None and b is not None:
                out.append((name, a, b))
        return tuple(out)

    def nodes(
        self, graph: Event, index: int, aot: str | None
    ) -> tuple[Content | None, Content | None]:
        """What was recorded of the nodes of a graph, and of those of Dynamo's."""
        texts = self._before(graph, index)
        return self._newest(texts, f"{NODES} {aot or ''}"), self._newest(texts, f"{DYNAMO_NODES} ")

    def _before(self, graph: Event, index: int) -> list[tuple[int, str, object]]:
        """The texts of a graph's frame up to its event."""
        return [text for text in self._texts.get(frame_of(graph), ()) if text[0] <= index]

    def _newest(self, texts: Sequence[tuple[int, str, object]], kind: str) -> Content | None:
        return self.blob(next((blob for _, name, blob in reversed(texts) if name == kind), None))

    @property
    def files(self) -> Mapping[str, Content]:
        """The user's files that were recorded, by path."""
        return self._files

    def source(self, fusion: Fusion) -> StageFile | None:
        """The file from which most of a kernel was made; None if it was not recorded."""
        count: dict[str, int] = defaultdict(int)
        for origin in fusion.made_from:
            if origin.file in self._files:
                count[origin.file] += 1
        if not count:
            return None
        path = max(count, key=lambda p: count[p])
        return StageFile(self._files[path], path, "the model's file")

    def _placed(self, graph: Event, index: int, comment: Comment, aot: str | None) -> Lines:
        """The user's lines by node, as the graph nearest to the code has them.

        Dynamo's graph is of this run. The later ones may come from a cache, and then name the
        lines of the program that filled it: these are found by their code instead.
        """
        earlier_texts = self._before(graph, index)
        dynamo = self._latest(earlier_texts, "dynamo_output_graph")
        part = (aot or "").partition("_")[2]
        out: dict[str, Place | None] = {}
        for kind in (*AFTER, *([f"aot_{part}_graph"] if part else []), "aot_joint_graph"):
            out = {**_renewed(self._latest(earlier_texts, kind), dynamo), **out}
        for name, nodes in comment.became:
            for node in nodes:
                out.setdefault(node, dynamo.get(name))
        if not comment.nodes:
            out.update((n, dynamo[n]) for n in comment.names if n in dynamo)
        return out

    def _stacks(self, graph: Event, index: int, name: str) -> list[Place]:
        """The lines that Inductor's provenance gives a kernel, if the user turned it on.

        It is written after the code, once for each graph. If it comes from a cache, it may name
        lines of another run, which Dynamo's graph of this run lacks: those are left out.
        """
        texts = self._texts.get(frame_of(graph), ())
        dynamo_lines = {
            p[:2] for p in self._latest(list(texts), "dynamo_output_graph").values() if p
        }
        for _, _, digest in sorted(
            (t for t in texts if t[1] == STACKS), key=lambda t: abs(t[0] - index)
        ):
            places = stack_places(text_of(self.blob(digest)), name)
            if places:
                return [p for p in places if not dynamo_lines or p[:2] in dynamo_lines]
        return []

    def _latest(self, texts: list[tuple[int, str, object]], kind: str) -> Lines:
        blob = next((blob for _, name, blob in reversed(texts) if name == kind), None)
        return {} if blob is None else self._lines(blob)

    def _lines(self, digest: object) -> Lines:
        key = digest if isinstance(digest, str) else id(digest)
        lines = self._memo.get(key, (None, None))[1]
        if lines is None:
            lines = graph_lines(text_of(self.blob(digest)))
            self._memo[key] = (digest, lines)
            while len(self._memo) > RECENT:
                del self._memo[next(iter(self._memo))]
        return lines


def joined(fusions: Iterable[Fusion]) -> Fusion | None:
    """Join the fusions of a kernel that several graphs share; None without any."""
    ops: dict[str, None] = {}
    by_line: dict[tuple[str, int], MadeFrom] = {}
    unplaced: dict[str, None] = {}
    calls: tuple[int, ...] = ()
    any_fusion = False
    for fusion in fusions:
        calls = calls if any_fusion else fusion.calls
        any_fusion = True
        ops.update(dict.fromkeys(fusion.ops))
        unplaced.update(dict.fromkeys(fusion.unplaced))
        for origin in fusion.made_from:
            earlier = by_line.setdefault((origin.file, origin.line), origin)
            if earlier is not origin:
                targets = tuple(dict.fromkeys((*earlier.targets, *origin.targets)))
                by_line[origin.file, origin.line] = MadeFrom(
                    earlier.file, earlier.line, earlier.code, targets
                )
    return (
        Fusion(tuple(ops), tuple(by_line.values()), tuple(unplaced), calls) if any_fusion else None
    )


def frame_of(event: Event) -> tuple[str, ...]:
    """The frame that an event is of, in its process."""
    return tuple(str(event.get(k)) for k in ("pid", "frame_id", "frame_compile_id"))
