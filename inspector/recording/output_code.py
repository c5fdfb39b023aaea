"""Reads Inductor's ``output_code``: its kernels, and the user's lines that they were made from.

The text is read line by line with plain string tests; it is never executed. Comments in it name
the nodes of the last graph that went into a kernel; the graphs' own texts, as torch's trace has
them, name the user's line above the nodes::

    # File: /home/me/model.py:9 in forward, code: y = torch.sin(x) * x
    sin: "f32[64, 256][256, 1]cuda:0" = torch.ops.aten.sin.default(primals_1)
"""

import ast
import base64
import hashlib
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.base.model import Content, Fusion, MadeFrom, Stage, StageFile
from inspector.recording.facts import Blob, Event, as_map, as_text, text_of

# Patterns without nested repetition: linear on any input.
_DEFINED = re.compile(r"^(\w{1,400}) = async_compile\.(\w+)\(\s*(?:(['\"])(\w*)\3\s*,)?")
_LAUNCHED = re.compile(r"^\s+(\w{1,400})\.run\(")
_CALLED = re.compile(r"^\s+(?:\w+ = )?(?:(extern_kernels)\.(\w+)|(\w+))\(")
_AOT = re.compile(r"^# AOT ID: \['([^']{1,100})'\]")
_PATH = "# kernel path: "
# Above the copy of a kernel that the user wrote: its own file, and the line where it begins there.
_ORIGINAL = re.compile(r"^# Original path: (.{1,4096}):(\d{1,9})$")
_NODES = "# Topologically Sorted Source Nodes: ["
_ATEN = "], Original ATen: ["
_FRAGMENT = re.compile(r"#   %(\w{1,400}) :")
_BECAME = re.compile(r"#   (\w{1,400}) => ([\w, ]+)")
_TARGET = " = call_function[target="
_ORIGIN = {"triton": "inductor", "multi_kernel": "inductor", "cpp": "cpp", "cpp_pybinding": "cpp"}


class Comment(Struct, frozen=True):
    """Inductor's comment on what a kernel was made from.

    ``ops`` are the program's operators (``aten.mul``), ``names`` the nodes of Dynamo's graph,
    ``nodes`` those of the last graph with the operator of each (``aten.mul.Tensor``), ``became``
    which of these each of ``names`` became.
    """

    ops: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    nodes: tuple[tuple[str, str], ...] = ()
    became: tuple[tuple[str, tuple[str, ...]], ...] = ()


class KernelText(Struct, frozen=True):
    """A kernel that ``output_code`` defines or calls.

    ``origin`` is ``inductor``, ``cpp`` or ``extern``; ``path`` the file that Inductor says that it
    wrote the kernel to, ``copy`` the name of the one that the quoted text goes to: of a template
    the two texts differ in blanks at the ends of lines. ``body`` is the line of ``output_code``
    that holds the first line of the kernel's own text, which that file repeats; ``last`` the last
    line of it. ``comment`` is what Inductor wrote above its definition (or, of an extern kernel,
    above its call), ``launches`` the lines of the wrapper that call it.

    Of a kernel that the user wrote, ``written`` is its own file and the line that it begins at
    there, ``symbol`` its own name and ``definition`` the line of ``output_code`` with its ``def``.

    Of a kernel in AOTInductor's C++, ``warps`` and ``shared`` are what it is launched with, None
    where that is not a number there; ``signature`` types by name.
    """

    name: str
    origin: str
    path: str | None = None
    line: int | None = None
    body: int | None = None
    last: int | None = None
    comment: Comment = Comment()
    launches: tuple[int, ...] = ()
    written: tuple[str, int] | None = None
    symbol: str | None = None
    definition: int | None = None
    copy: str | None = None
    warps: int | None = None
    shared: int | None = None
    signature: Mapping[str, str] | None = None


class OutputCode(Struct, frozen=True):
    """Kernels in the order of the wrapper's calls, then those defined and never called."""

    aot_id: str | None
    kernels: tuple[KernelText, ...]


def is_output_code(text: str) -> bool:
    """Whether a text is a graph's wrapper (and not one kernel's own file)."""
    head = text[:20000]
    return "AsyncCompile" in head or head.lstrip().startswith("# AOT ID:")


def parse(text: str) -> OutputCode:
    """Read one graph's ``output_code``: its Python, or AOTInductor's C++. Never raises."""
    if is_wrapper(text):
        return OutputCode(None, kernels(text))
    lines = text.split("\n")
    defined: dict[str, KernelText] = {}
    calls: list[KernelText] = []
    launches: dict[tuple[str, str], list[int]] = {}
    comment = Comment()
    nodes: list[tuple[str, str]] = []
    became: list[tuple[str, tuple[str, ...]]] = []
    aot: str | None = None
    path: str | None = None
    written: tuple[str, int] | None = None
    n = 0
    while n < len(lines):
        line = lines[n]
        n += 1
        if aot is None and (match := _AOT.match(line)):
            aot = match[1]
        if line.lstrip().startswith(_NODES):
            names, _, ops = line.lstrip()[len(_NODES) :].partition(_ATEN)
            comment = Comment(_words(ops.rpartition("]")[0]), _words(names))
            nodes, became = [], []
        elif renaming := _BECAME.match(line):
            became.append((renaming[1], _words(renaming[2])))
        elif node := _FRAGMENT.match(line):  # #   %mul : … = call_function[target=…](args = …)
            _, called_function, rest = line.partition(_TARGET)
            target = rest.partition("]")[0].removeprefix("torch.ops.")
            nodes += [(node[1], target)] if called_function else []
        elif line.startswith(_PATH):
            path = line[len(_PATH) :].strip()
        elif match := _ORIGINAL.match(line):
            written = (match[1], int(match[2]))
        elif match := _DEFINED.match(line):
            quote = line.rfind("'''")
            closing = (k + 1 for k in range(n, len(lines)) if lines[k].startswith("'''"))
            end = next(closing, len(lines)) if quote >= 0 else n
            kernel = KernelText(
                name=match[1],
                origin=_ORIGIN.get(match[2], "extern"),
                path=path,
                line=n,
                # The text begins right after the quotes: its first line is there.
                body=n if quote >= 0 else None,
                last=end,
                comment=replace(comment, nodes=tuple(nodes), became=tuple(became)),
            )
            if kernel.body is not None and match[2] == "triton":
                copy = _copied_to("\n".join(("", *lines[kernel.body : end - 1], "")))
                kernel = replace(kernel, copy=copy)
            if written is not None and quote >= 0:  # the user wrote it, and Inductor copied it
                symbol = match[4] or match[1]
                places = (k + 1 for k in range(n, end - 1) if lines[k].startswith(f"def {symbol}("))
                kernel = replace(
                    kernel,
                    path=kernel.path or kernel.copy,
                    written=written,
                    symbol=symbol,
                    definition=next(places, None),
                )
            defined[match[1]] = kernel
            path, n, comment, nodes, became = None, end, Comment(), [], []
            written = None
        elif match := _LAUNCHED.match(line) or _CALLED.match(line):
            *_, name = match.groups()
            called = defined.get(name)
            if match.re is _CALLED and match[1]:
                called = KernelText(match[2], "extern", comment=comment)
            if called is not None:
                calls.append(called)
                launches.setdefault((called.origin, called.name), []).append(n)
                comment = Comment()
    unique: dict[tuple[str, str], KernelText] = {}
    for kernel in (*calls, *defined.values()):
        key = (kernel.origin, kernel.name)
        if key not in unique:
            unique[key] = replace(kernel, launches=tuple(launches.get(key, ())))
        elif kernel.origin == "extern":
            # A library's function may be called for several operators.
            unique[key] = replace(unique[key], comment=_joined(unique[key].comment, kernel.comment))
    return OutputCode(aot, tuple(unique.values()))


def _copied_to(quoted: str) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about unknown escapes in foreign code
        text = _literal(f"'''{quoted}'''") if "\\" in quoted else quoted
    if not isinstance(text, str):
        return None
    digest = hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).digest()
    return f"c{base64.b32encode(digest)[:51].decode().lower()}.py"


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for part in text.split(",") if (word := part.strip()))


def _joined(a: Comment, b: Comment) -> Comment:
    pairs = ((a.ops, b.ops), (a.names, b.names))
    ops, names = (tuple(dict.fromkeys((*x, *y))) for x, y in pairs)
    return Comment(ops, names, tuple(dict.fromkeys((*a.nodes, *b.nodes))))


_CPP_DEFINED = re.compile(r"^(\s{0,64})async_compile\.triton\('(\w{1,400})', '''")
_CPP_CALLED = re.compile(r"^\s{1,64}(?:launch|call)_(\w{1,400})\(")
_CPP_LAUNCHED = re.compile(
    r"^\s{1,64}launchKernel\((?:kernels_?\.)?(\w{1,400}), [^,]{1,400}, [^,]{1,400}, [^,]{1,400},"
    r" (\d{1,9}), (\d{1,9}),"
)
_HEAD = 20_000


def is_wrapper(text: str) -> bool:
    """Whether a text is AOTInductor's C++."""
    return "aoti_runtime" in text[:_HEAD] or "torch/csrc/inductor/" in text[:_HEAD]


def kernels(text: str) -> tuple[KernelText, ...]:
    """The Triton kernels of a C++ wrapper in the order of their definitions. Never raises."""
    lines = text.split("\n")
    found: dict[str, KernelText] = {}
    calls: dict[str, list[int]] = {}
    launched: dict[str, tuple[int, int]] = {}
    n = 0
    while n < len(lines):
        line = lines[n]
        n += 1
        if match := _CPP_DEFINED.match(line):
            first = n
            while n < len(lines) and not re.match(r"^\s{0,64}'''", lines[n]):
                n += 1
            python = "\n".join(row.removeprefix(match[1]) for row in lines[first:n])
            n += 1
            last, path = min(n, len(lines)), _copied_to(f"\n{python}\n")
            kernel = KernelText(match[2], "inductor", path, first, first, last)
            found.setdefault(match[2], replace(kernel, signature=_signature(python)))
        elif match := _CPP_LAUNCHED.match(line):
            launched.setdefault(match[1], (int(match[2]), int(match[3])))
        elif match := _CPP_CALLED.match(line):
            calls.setdefault(match[1], []).append(n)
    out = []
    for name, kernel in found.items():
        warps, shared = launched.get(name, (None, None))
        out.append(replace(kernel, launches=tuple(calls.get(name, ())), warps=warps, shared=shared))
    return tuple(out)


def _signature(body: str) -> Mapping[str, str] | None:
    match = re.search(r"'signature': (\{[^{}]{0,100000}\})", body)
    value = None if match is None else _literal(match[1])
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else None


Place = tuple[str, int, str]
"""File, line and code."""
Lines = Mapping[str, Place | None]
"""The place that each node of a graph came from, None if the graph names none."""

_FILE = re.compile(r"#(?: Annotation: .{0,4096}?)? (?:Backward of forward node: )?File: ")
"""Before a place: from torch 2.15 on a backward node is said to be of a forward node's."""
_NODE = re.compile(r"\s{4,}(\w{1,400})(?:: \"[^\"\n]*\")? = ")
# The graphs whose nodes the fragments in output_code name, the nearest first.
AFTER = ("inductor_post_grad_graph", "before_post_grad_graph")
NODES, DYNAMO_NODES = "graph_nodes", "dynamo_nodes"
_WRITTEN = {Stage.IR_PRE_FUSION: "ir_pre_fusion", Stage.IR_POST_FUSION: "ir_post_fusion"}
# Functions of torch/_inductor/compile_fx.py and fx_passes, and what torch's trace has around them.
PASSES = (
    ("pre_grad_passes", "before_pre_grad_graph", "after_pre_grad_graph"),
    ("joint_graph_passes", "before_joint_graph", "after_joint_graph"),
    ("post_grad_passes", "before_post_grad_graph", "inductor_post_grad_graph"),
)


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


class Origins(Struct):
    """The graphs' texts of a recording, in order, and the user's files that they name."""

    blob: Blob
    _texts: dict[object, list[tuple[int, str, object]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    files: dict[str, Content] = field(default_factory=dict)

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
                self.files[path] = content
        elif event.get("event") == "triton":
            # A file with kernels of the user's own may hold the model too.
            source = as_map(event.get("source"))
            path, content = as_text(source.get("file")), self.blob(source.get("blob"))
            if path and content is not None:
                self.files.setdefault(path, content)

    def fusions(self, graph: Event, index: int, parsed: OutputCode) -> list[Fusion]:
        """What each kernel was made from; ``index``: the place of the graph's event among all.

        The user's lines are those of the graph nearest to the code. Dynamo's graph is of this run;
        the later ones may come from a cache, and then name the lines of the program that filled it:
        these are found by their code instead.
        """
        texts = self._before(graph, index)
        part = (parsed.aot_id or "").partition("_")[2]
        dynamo = graph_lines(text_of(self._newest(texts, "dynamo_output_graph")))
        placed: dict[str, Place | None] = {}
        for kind in (*AFTER, *([f"aot_{part}_graph"] if part else []), "aot_joint_graph"):
            placed = {**_renewed(graph_lines(text_of(self._newest(texts, kind))), dynamo), **placed}
        return [_fusion(kernel, placed, dynamo) for kernel in parsed.kernels]

    def stages(self, graph: Event, index: int, aot: str | None) -> dict[Stage, StageFile]:
        """The texts above a graph's ``output_code``, in the order of lowering."""
        texts = self._before(graph, index)
        part = (aot or "").partition("_")[2]
        kinds = {Stage.DYNAMO: "dynamo_output_graph", Stage.JOINT: "aot_joint_graph"}
        if part == "backward":
            kinds[Stage.BACKWARD] = "aot_backward_graph"
        else:
            own = "forward" if part == "forward" else "inference"
            kinds[Stage.FORWARD] = f"aot_{own}_graph"
        kinds[Stage.POST_GRAD] = "inductor_post_grad_graph"
        kinds |= {stage: f"{name} {aot or ''}".rstrip() for stage, name in _WRITTEN.items()}
        contents = {stage: self._newest(texts, kind) for stage, kind in kinds.items()}
        return {
            stage: StageFile(content, None, "Inductor" if stage in _WRITTEN else "torch's trace")
            for stage, content in contents.items()
            if content is not None
        }

    def passes(
        self, graph: Event, index: int, aot: str | None
    ) -> tuple[tuple[str, Content, Content], ...]:
        """Inductor's passes on a graph: the name, the text before and the text after of each. Those
        before the graph was taken apart into forward and backward are the forward's."""
        texts = self._before(graph, index)
        backward = (aot or "").partition("_")[2] == "backward"
        pairs = (
            (name, self._newest(texts, before), self._newest(texts, after))
            for name, before, after in (PASSES[2:] if backward else PASSES)
        )
        return tuple((name, a, b) for name, a, b in pairs if a is not None and b is not None)

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

    def source(self, fusion: Fusion) -> StageFile | None:
        """The file that most of its operators are from."""
        count: Counter[str] = Counter()
        for one in fusion.made_from:
            if one.file in self.files:
                count[one.file] += max(len(one.targets), 1)
        if not count:
            return None
        path = count.most_common(1)[0][0]
        return StageFile(self.files[path], path, "the model's file")


def _fusion(kernel: KernelText, placed: Lines, dynamo: Lines) -> Fusion:
    """What a kernel was made from, by the places of nodes, and of those of Dynamo's graph."""
    comment = kernel.comment
    renamed = {n: dynamo.get(name) for name, nodes in reversed(comment.became) for n in nodes}
    targets: dict[Place, list[str]] = defaultdict(list)
    unplaced: list[str] = []
    for name, target in comment.nodes:
        if place := placed[name] if name in placed else renamed.get(name):
            targets[place].append(target)
        elif "." in target and not target.startswith("operator."):
            unplaced.append(target)
    # An extern kernel, or a version that prints no fragment: the program's own names.
    for name in () if comment.nodes else comment.names:
        if place := dynamo.get(name, placed.get(name)):
            targets[place].extend(())
    sources = tuple(MadeFrom(f, n, code, tuple(ops)) for (f, n, code), ops in targets.items())
    defined = () if kernel.line is None else (kernel.line,)
    return Fusion(comment.ops, sources, tuple(unplaced), (*defined, *kernel.launches))


def joined(fusions: Iterable[Fusion]) -> Fusion | None:
    if not (every := tuple(fusions)):
        return None
    by_line: dict[tuple[str, int], MadeFrom] = {}
    for origin in (one for fusion in every for one in fusion.made_from):
        earlier = by_line.get((origin.file, origin.line), origin)
        targets = tuple(dict.fromkeys((*earlier.targets, *origin.targets)))
        by_line[origin.file, origin.line] = replace(earlier, targets=targets)
    ops = dict.fromkeys(op for fusion in every for op in fusion.ops)
    unplaced = dict.fromkeys(op for fusion in every for op in fusion.unplaced)
    return Fusion(tuple(ops), tuple(by_line.values()), tuple(unplaced), every[0].calls)


def frame_of(event: Event) -> tuple[str, ...]:
    """The frame that an event is of, in its process."""
    return tuple(str(event.get(k)) for k in ("pid", "frame_id", "frame_compile_id"))
