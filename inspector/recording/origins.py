"""The user's lines that the kernels of Inductor's ``output_code`` were made from.

Comments in it name the nodes of the last graph that went into a kernel; the graphs' own texts, as
torch's trace has them, name the user's line above the nodes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.base.model import (
    Content,
    Fusion,
    Graph,
    MadeFrom,
    Origin,
    Stage,
    StageFile,
    principal_lines,
)
from inspector.parsers.output_code import KernelText, OutputCode, Place, graph_lines
from inspector.recording.contents import Blob, text_of
from inspector.recording.decoding import as_map
from inspector.recording.events import Event, Frame, GraphText, TritonCompile, UserFile
from inspector.recording.torch_compiles import parsed_json, stack_in

Lines = Mapping[str, Place | None]
"""The place that each node of a graph came from, None if the graph names none."""

# The graphs whose nodes the fragments in output_code name, the nearest first.
AFTER = ("inductor_post_grad_graph", "before_post_grad_graph")
NODES, DYNAMO_NODES = "graph_nodes", "dynamo_nodes"
# Torch's trace has these after the code: the nodes and the stacks of each kernel.
MAPPINGS = "inductor_provenance_tracking_node_mappings"
STACKS = "inductor_provenance_tracking_kernel_stack_traces"
MAX_STACKS = 256
_WRITTEN = {Stage.IR_PRE_FUSION: "ir_pre_fusion", Stage.IR_POST_FUSION: "ir_post_fusion"}
# Functions of torch/_inductor/compile_fx.py and fx_passes, and what torch's trace has around them.
PASSES = (
    ("pre_grad_passes", "before_pre_grad_graph", "after_pre_grad_graph"),
    ("joint_graph_passes", "before_joint_graph", "after_joint_graph"),
    ("post_grad_passes", "before_post_grad_graph", "inductor_post_grad_graph"),
)


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


class _Text(Struct, frozen=True):
    """A text of a graph: the place of its event among all, and torch's name of it."""

    index: int
    kind: str
    blob: object


class Origins(Struct):
    """The graphs' texts of a recording, in order, and the user's files that they name."""

    blob: Blob
    _texts: dict[Frame, list[_Text]] = field(default_factory=lambda: defaultdict(list))
    files: dict[str, Content] = field(default_factory=dict)

    def take(self, event: Event, index: int) -> None:
        """Keep the graphs and the user's files of an event; ``index``: its place among all."""
        match event:
            case GraphText():
                # What is Inductor's own names the graph; a frame has one forward and one backward.
                kind = event.kind or event.event
                if event.graph is not None:
                    kind = f"{kind} {event.graph}"
                self._texts[event.frame].append(_Text(index, kind, event.blob))
            case UserFile(path=str(path)):
                content = self.blob(event.blob)
                if content is not None:
                    self.files[path] = content
            case TritonCompile(event="triton"):
                # A file with kernels of the user's own may hold the model too.
                file = event.source.file
                content = self.blob(event.source.blob)
                if file is not None and content is not None:
                    self.files.setdefault(file, content)

    def fusions(self, graph: Event, index: int, parsed: OutputCode) -> list[Fusion]:
        """What each kernel was made from; ``index``: the place of the graph's event among all.

        The user's lines are those of the graph nearest to the code. Dynamo's graph is of this run;
        the later ones may come from a cache, and then name the lines of the program that filled it:
        these are found by their code instead.
        """
        texts = self._texts_of(graph, index)
        part = (parsed.aot_id or "").partition("_")[2]
        dynamo = graph_lines(text_of(texts.get("dynamo_output_graph")))
        placed: dict[str, Place | None] = {}
        for kind in (*AFTER, f"aot_{part or 'inference'}_graph", "aot_joint_graph"):
            placed = {**_renewed(graph_lines(text_of(texts.get(kind))), dynamo), **placed}
        fusions = [_fusion(kernel, placed, dynamo) for kernel in parsed.kernels]
        if all(fusion.made_from for fusion in fusions):
            return fusions
        nodes = _by_kernel(as_map(self._later(graph, index, MAPPINGS)).get("cppCodeToPost"))
        stacks = _by_kernel(self._later(graph, index, STACKS))
        return [
            fusion
            if fusion.made_from
            else _tracked(fusion, placed, nodes.get(kernel.name, ()), stacks.get(kernel.name, ()))
            for kernel, fusion in zip(parsed.kernels, fusions, strict=True)
        ]

    def _later(self, graph: Event, index: int, kind: str) -> object:
        """The first JSON of a kind that follows a graph's code."""
        for text in self._texts.get(graph.frame, ()):
            if text.index > index and text.kind == kind:
                return parsed_json(text_of(self.blob(text.blob)))
        return None

    def graph(self, event: Event, index: int, name: str, aot: str | None) -> Graph:
        """A graph with the texts above its ``output_code``, in the order of lowering. Passes before
        it was taken apart into forward and backward are the forward's."""
        texts = self._texts_of(event, index)
        aot_id = aot or ""
        part = aot_id.partition("_")[2]
        kinds = {Stage.DYNAMO: "dynamo_output_graph", Stage.JOINT: "aot_joint_graph"}
        if part == "backward":
            kinds[Stage.BACKWARD] = "aot_backward_graph"
        else:
            kinds[Stage.FORWARD] = f"aot_{'forward' if part == 'forward' else 'inference'}_graph"
        kinds[Stage.POST_GRAD] = "inductor_post_grad_graph"
        kinds |= {stage: f"{name} {aot_id}".rstrip() for stage, name in _WRITTEN.items()}
        stages: dict[Stage, StageFile] = {}
        for stage, kind in kinds.items():
            text = texts.get(kind)
            if text is not None:
                author = "Inductor" if stage in _WRITTEN else "torch's trace"
                stages[stage] = StageFile(text, None, author)
        passes = []
        for pass_name, name_before, name_after in PASSES[2:] if part == "backward" else PASSES:
            text_before, text_after = texts.get(name_before), texts.get(name_after)
            if text_before is not None and text_after is not None:
                passes.append((pass_name, text_before, text_after))
        return Graph(
            id=name,
            origin=Origin.INDUCTOR,
            kernels=(),
            stages=stages,
            nodes=texts.get(f"{NODES} {aot_id}".rstrip()),
            dynamo=texts.get(DYNAMO_NODES),
            passes=tuple(passes),
        )

    def _texts_of(self, graph: Event, index: int) -> dict[str, Content | None]:
        """The newest texts of a graph's frame up to its event, by kind."""
        texts = self._texts.get(graph.frame, ())
        newest = {text.kind: text.blob for text in texts if text.index <= index}
        return {kind: self.blob(blob) for kind, blob in newest.items()}

    def source(self, fusion: Fusion) -> StageFile | None:
        """The file of a template's product, else the one that most operators are from."""
        count: Counter[str] = Counter()
        for line in principal_lines([m for m in fusion.made_from if m.file in self.files]):
            count[line.file] += max(len(line.targets), 1)
        if not count:
            return None
        path = count.most_common(1)[0][0]
        return StageFile(self.files[path], path, "the model's file")


def _fusion(kernel: KernelText, placed: Lines, dynamo: Lines) -> Fusion:
    """What a kernel was made from, by the places of nodes, and of those of Dynamo's graph."""
    comment = kernel.comment
    renamed: dict[str, Place | None] = {}
    for dynamo_name, nodes in reversed(comment.became):
        renamed |= dict.fromkeys(nodes, dynamo.get(dynamo_name))
    targets: dict[Place, list[str]] = defaultdict(list)
    unplaced: list[str] = []
    for name, target in comment.nodes:
        place = placed[name] if name in placed else renamed.get(name)
        if place:
            targets[place].append(target)
        elif "." in target and not target.startswith("operator."):
            unplaced.append(target)
    if not comment.nodes:
        # An extern kernel, or a version that prints no fragment: the program's own names.
        for name in comment.names:
            place = dynamo.get(name, placed.get(name))
            if place:
                targets.setdefault(place, [])
    sources = tuple(
        MadeFrom(file, line, code, tuple(operators))
        for (file, line, code), operators in targets.items()
    )
    definition = () if kernel.line is None else (kernel.line,)
    return Fusion(comment.ops, sources, tuple(unplaced), (*definition, *kernel.launches))


def _by_kernel(mapping: object) -> dict[str, list[str]]:
    """Texts of each kernel; torch numbers its calls: ``triton_poi_fused_add_0:1``."""
    out: dict[str, list[str]] = defaultdict(list)
    for call, texts in as_map(mapping).items():
        name = call.rpartition(":")[0] or call
        if isinstance(texts, list) and len(out[name]) < MAX_STACKS:
            out[name] += [str(text) for text in texts[:MAX_STACKS]]
    return out


def _tracked(fusion: Fusion, placed: Lines, nodes: Iterable[str], stacks: Iterable[str]) -> Fusion:
    """A fusion with the lines of nodes that torch tracked, or else of their stacks."""
    places: dict[Place, None] = {}
    for node in nodes:
        place = placed.get(node)
        if place is not None:
            places[place] = None
    if not places:
        for stack in stacks:
            for frame in stack_in(stack)[-1:]:
                places[frame.file, frame.line, frame.code] = None
    made_from = [MadeFrom(file, line, code) for file, line, code in places]
    return replace(fusion, made_from=tuple(made_from))


def joined(fusions: Iterable[Fusion]) -> Fusion | None:
    """One fusion of all that several kernels were made from; None of none."""
    calls: tuple[int, ...] | None = None
    by_line: dict[tuple[str, int], MadeFrom] = {}
    ops: dict[str, None] = {}
    unplaced: dict[str, None] = {}
    for fusion in fusions:
        if calls is None:
            calls = fusion.calls
        ops |= dict.fromkeys(fusion.ops)
        unplaced |= dict.fromkeys(fusion.unplaced)
        for line in fusion.made_from:
            place = line.file, line.line
            earlier = by_line.get(place, line)
            targets = tuple(dict.fromkeys((*earlier.targets, *line.targets)))
            by_line[place] = replace(earlier, targets=targets)
    if calls is None:
        return None
    return Fusion(tuple(ops), tuple(by_line.values()), tuple(unplaced), calls)
