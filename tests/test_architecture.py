"""The house's rules as failing tests: who imports what, who starts processes, who does I/O.

A rule is of rooms (``inspector.parsers``), so that a module that is added is under it. Each file is
read and parsed once; each test holds all modules against one rule and tells every fault at once.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from inspector.base.names import words
from tests.helpers.ptxview import finished, printed

ROOT = Path(__file__).resolve().parent.parent
HOUSE = ROOT / "inspector"
LONGEST = 700
STARTS = ("exec", "spawn", "posix_spawn", "system", "popen", "fork", "startfile")
READS = words(
    "open read_text read_bytes write_text write_bytes iterdir glob rglob mkdir unlink "
    "rename touch stat exists is_file is_dir resolve"
)
PURE = (
    "inspector.base",
    "inspector.parsers",
    "inspector.semantics",
    "inspector.analysis",
    "inspector.execute",
    "inspector.render",
    "inspector.diff",
)
# They ask readers for what is compared.
ASKS = {"inspector.diff.compare", "inspector.diff.check"}


@dataclass(frozen=True)
class Module:
    """A file of the house, read and parsed when it is first looked at."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of its syntax, the module itself first."""
        return tuple(ast.walk(ast.parse(self.text, str(self.path))))

    @property
    def docstring(self) -> str | None:
        tree = self.nodes[0]
        assert isinstance(tree, ast.Module)
        return ast.get_docstring(tree)

    @cached_property
    def imports(self) -> tuple[tuple[int, str], ...]:
        """Every module that it names in an import, relative ones resolved, lazy ones too."""
        return tuple(self._imports())

    def _imports(self) -> Iterator[tuple[int, str]]:
        own = self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]
        package = own.split(".")
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                module = ".".join([*base, node.module or ""]).strip(".")
                yield node.lineno, module
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)

    @property
    def room(self) -> str:
        """``listing`` of ``inspector.parsers.ptx``; "" of the package itself."""
        return self.name.partition(".")[2].partition(".")[0]


def _modules() -> Iterator[Module]:
    for path in sorted(HOUSE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield Module(".".join(parts).removesuffix(".__init__"), path)


MODULES = {module.name: module for module in _modules()}
PROBES = [m for m in MODULES.values() if m.room == "probes"]
OURS = [m for m in MODULES.values() if m.room != "probes"]


def within(module: str, *packages: str) -> bool:
    return any(module == p or module.startswith(p + ".") for p in packages)


def outside(*rooms: str) -> list[Module]:
    """Our modules outside these rooms."""
    return [m for m in OURS if not within(m.name, *rooms)]


def imported(modules: Iterable[Module], *packages: str) -> list[str]:
    """Where modules import one of these packages."""
    return [
        f"{m.name}:{line} imports {name}"
        for m in modules
        for line, name in m.imports
        if within(name, *packages)
    ]


def loaded_by(module: str) -> list[str]:
    """What a fresh interpreter has loaded when it has imported a module."""
    code = f"import sys, {module}; print(*sys.modules)"
    return printed(sys.executable, "-c", code).decode().split()


def test_importing_the_command_line_loads_no_torch_triton_or_textual() -> None:
    loaded = {name.split(".")[0] for name in loaded_by("inspector.commands.cli")}
    assert "inspector" in loaded
    assert not {"torch", "triton", "textual", "rich", "pygments", "argcomplete"} & loaded


def test_the_first_frame_waits_for_no_numpy_and_no_hints() -> None:
    loaded = loaded_by("inspector.tui.app.app, inspector.tui.work.overview_screen")
    assert "textual" in loaded
    assert not [name for name in loaded if within(name, "numpy", "inspector.analysis.hints.rules")]


def test_a_program_that_is_run_waits_for_no_listing_and_no_analysis() -> None:
    """What the end of a run needs is imported while the program runs."""
    loaded = loaded_by("inspector.commands.run")
    rooms = ("parsers", "analysis", "reader", "render", "measure", "diff", "sources.opening")
    later = [f"inspector.{room}" for room in rooms]
    assert "inspector.sources.running" in loaded
    assert not [name for name in loaded if within(name, *later)]


def test_commands_that_print_load_no_torch_triton_or_textual() -> None:
    data = str(ROOT / "tests" / "data" / "core" / "lecture")
    recorded = str(ROOT / "examples" / "recordings" / "lecture-h200.ptxview")
    commands = [
        ["trace", recorded, "780c582c", "--blocks", "1"],
        ["step", recorded, "780c582c", "--commands", "end"],
        ["open", data],
        ["doctor"],
        ["explain", "ld"],
        ["show", data, "matmul_kernel", "--json"],
    ]
    code = (
        "import sys\nfrom inspector.commands.cli import main\n"
        f"assert not any(main(words) for words in {commands!r})\n"
        "print(*sorted({m.split('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    done = finished([sys.executable, "-c", code])
    assert done.status == 0, done.said
    assert not {"torch", "triton", "textual"} & set(done.said.splitlines()[-1].split())


def test_probes_import_no_room() -> None:
    allowed = {*sys.stdlib_module_names, "torch", "triton", "numpy", "ptxview_probes"}
    assert len(PROBES) > 10
    assert not [
        f"{m.name}:{line} imports {name}"
        for m in PROBES
        for line, name in m.imports
        if not within(name, "inspector.probes") and name.split(".")[0] not in allowed
    ]


def test_what_the_probes_load_is_pure_and_needs_nothing_but_numpy() -> None:
    """The executor of PTX comes into the user's program, by one door, and what it stands on."""
    reached: set[str] = set()
    left = {"inspector.execute"}
    while left:
        name = left.pop()
        reached.add(name)
        parents = {name.rpartition(".")[0]} if "." in name else set()
        below = {other for _, other in MODULES[name].imports if other in MODULES}
        left |= (below | parents) - reached
    modules = [MODULES[name] for name in sorted(reached)]
    assert {m.room for m in modules} - {""} <= {name.partition(".")[2] for name in PURE}
    allowed = {*sys.stdlib_module_names, "numpy", "inspector"}
    assert not [
        f"{m.name}:{line} imports {name}"
        for m in modules
        for line, name in m.imports
        if name.split(".")[0] not in allowed
    ]
    doors = [m.name for m in PROBES if "ptxview_executor" in m.text]
    assert doors == ["inspector.probes.emulator.executor"]


def test_only_one_module_starts_processes() -> None:
    """The contract has ``subprocess``; there are other ways."""
    modules = outside("inspector.system.process")
    others = ("multiprocessing", "pty", "concurrent.futures.ProcessPoolExecutor")
    faults = imported(modules, *others)
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                starts = node.attr.startswith((*STARTS, "create_subprocess"))
                if node.value.id in ("os", "asyncio") and starts:
                    faults.append(f"{module.name}:{node.lineno} uses {node.attr}")
            elif isinstance(node, ast.ImportFrom) and node.module == "os":
                faults += [
                    f"{module.name}:{node.lineno} imports {alias.name}"
                    for alias in node.names
                    if alias.name.startswith(STARTS)
                ]
    assert not faults


def test_rooms_that_compute_do_no_io() -> None:
    pure = [m for m in OURS if within(m.name, *PURE) and m.name not in ASKS]
    faults = imported(pure, "pathlib.Path", "io.open")  # the contract has the modules
    for module in pure:
        for node in module.nodes:
            if isinstance(node, ast.Call):
                called = node.func
                if isinstance(called, ast.Name) and called.id in ("open", "print", "input"):
                    faults.append(f"{module.name}:{node.lineno} calls {called.id}()")
                elif isinstance(called, ast.Attribute) and called.attr in READS:
                    # A string's or a text's own method is no I/O; a path's is.
                    faults.append(f"{module.name}:{node.lineno} calls .{called.attr}()")
    assert not faults


OPENS = {"open", "ZipFile", "TarFile", "read_text", "read_bytes", "mmap", "fromfile"}
LISTS = {"iterdir", "scandir", "listdir", "walk", "rglob"}
WRITES = re.compile("[wax]b?[+]?")
# Whether the folder to record into is empty: of its names nothing is kept.
LOOKS = {("inspector.sources.running", "iterdir")}


def writes(node: ast.Call) -> bool:
    """Whether a call that opens something says that it is for writing, or opens nothing at all."""
    if node.args and ast.unparse(node.args[0]) == "os.devnull":
        return True
    if ast.unparse(node.func) == "os.open":
        return bool({"os.O_WRONLY", "os.O_TMPFILE"} & {*ast.unparse(node.args[1]).split(" | ")})
    given = [*node.args, *(k.value for k in node.keywords if k.arg == "mode")]
    return any(isinstance(a, ast.Constant) and WRITES.fullmatch(str(a.value)) for a in given)


def of_the_kernel(node: ast.Call) -> bool:
    """Whether a call asks the kernel what it says of processes."""
    return bool(node.args) and ast.unparse(node.args[0]).lstrip("f'\"").startswith("/proc/")


def test_only_files_opens_what_it_did_not_write() -> None:
    faults = []
    for module in outside("inspector.system.files"):
        for node in module.nodes:
            if not isinstance(node, ast.Call) or of_the_kernel(node):
                continue
            called = node.func
            word = called.attr if isinstance(called, ast.Attribute) else ast.unparse(called)
            of_syntax = isinstance(called, ast.Attribute) and ast.unparse(called.value) == "ast"
            lists = word in LISTS and not of_syntax and (module.name, word) not in LOOKS
            if lists or (word in OPENS and not writes(node)):
                faults.append(f"{module.name}:{node.lineno} calls {word}: inspector.system.files")
    assert not faults


WAYS_OUT = words("Console rich_print inspect print_help print_usage print_exc print_exception")


def _printing(node: ast.AST) -> bool:
    """Whether this writes to a terminal, or gives what does."""
    streams = ("stdout", "stderr", "__stdout__", "__stderr__")
    if isinstance(node, ast.Name):
        return node.id in ("print", "input")
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        ways = {"sys": streams, "os": ("ctermid", "ttyname"), "builtins": ("print",)}
        return node.attr in ways.get(node.value.id, ())
    if isinstance(node, ast.ImportFrom):
        return node.module == "sys" and bool({a.name for a in node.names} & set(streams))
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
        called = called.id if isinstance(called, ast.Name) else called
        # A console of Rich's own would be a second way out.
        if called in WAYS_OUT:
            return True
        if isinstance(node.func, ast.Attribute) and node.func.attr == "write" and node.args:
            first = node.args[0]
            return isinstance(first, ast.Constant) and first.value in (1, 2)
    return False


def test_only_the_printer_prints() -> None:
    """What strangers wrote reaches a terminal through one module, which makes it harmless."""
    modules = outside("inspector.system.printing")
    assert len(modules) > 100
    assert not [
        f"{module.name}:{getattr(node, 'lineno', 0)}"
        for module in modules
        for node in module.nodes
        if _printing(node)
    ]


def test_only_the_layout_knows_the_layout() -> None:
    modules = outside("inspector.recording.layout")
    assert len(modules) > 100
    assert not [
        f"{module.name}:{node.lineno} names {node.value}"
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.Constant) and node.value in ("events.jsonl", "blobs")
    ]


def test_only_parsers_read_declarations_of_ptx() -> None:
    """Only ``parsers`` read declarations, so that no two answers differ."""
    # ``ld.param`` is an instruction, ``tt.func`` is Triton's
    directive = re.compile(r"(?<![a-z)])\\\.(?:\(\?:)?(?:reg|entry|func|param|reqntid|maxntid)\b")
    modules = outside("inspector.parsers")
    assert len(modules) > 100
    assert not [
        f"{module.name}:{node.lineno} reads {node.value!r}"
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.Constant)
        if isinstance(node.value, str) and directive.search(node.value)
    ]


def test_a_long_module_says_why() -> None:
    """A module is one thing, whole; one that is longer than most gives its reason."""
    assert not [
        module.name
        for module in MODULES.values()
        if len(module.text.splitlines()) > LONGEST
        and "One module because" not in (module.docstring or "")
    ]


def test_every_module_says_what_it_is() -> None:
    assert not [module.name for module in MODULES.values() if not module.docstring]


VAGUE = frozenset(
    words(
        "one said own told held made kept known given taken chosen found asked seen done stands "
        "standing lies lying at of by what which where whose every each others rest more most many "
        "mine theirs ours here there before after beside above left tells says wanted meant put "
        "let goes came again alike whole plain bare"
    )
)
"""Function words and participles: as a name they say how a value was got, not what it is."""
MAX_VAGUE_SHARE = 0.01


def bound_names(module: Module) -> Iterator[str]:
    """Names that a module binds: variables, parameters and functions."""
    for node in module.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id.strip("_")
        elif isinstance(node, ast.arg):
            yield node.arg.strip("_")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name.strip("_")


def test_names_say_what_they_hold() -> None:
    names = [(module.name, name) for module in MODULES.values() for name in bound_names(module)]
    vague = [f"{module}: {name}" for module, name in names if name in VAGUE]
    assert len(vague) <= MAX_VAGUE_SHARE * len(names), sorted(vague)


# The drawing, compared with the contract and the code.

DRAWING = (ROOT / "docs" / "contributing" / "architecture.md").read_text("utf-8")
EVERYWHERE = ("base",)
"""Rooms that all above them import: the drawing leaves those arrows out."""
PATH = re.compile(r"`(inspector/[\w./]+|tests/[\w./]+)`")


def section(title: str) -> str:
    """What stands below a heading of the document, up to the next of its level."""
    return DRAWING.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def drawn_layers() -> list[list[str]]:
    """The layers in the document: a line each, from the top, rooms apart by a bar."""
    block = section("Layers").split("```")[1]
    lines = [line.partition("—")[0] for line in block.splitlines() if line.strip()]
    return [[room.strip() for room in line.split("|")] for line in lines]


def contracts() -> list[dict[str, object]]:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return list(found["tool"]["importlinter"]["contracts"])


def rooms() -> set[str]:
    """Rooms of the house, from its folders and files."""
    folders = {p.parent.name for p in HOUSE.glob("*/__init__.py")}
    return folders | {p.stem for p in HOUSE.glob("*.py")} - {"__init__", "__main__"}


def arrows() -> set[tuple[str, str]]:
    """Which room imports which, as the code has it."""
    return {
        (module.room, MODULES[name].room)
        for module in MODULES.values()
        for _, name in module.imports
        if name in MODULES
        and module.room not in ("", "__main__")
        and MODULES[name].room not in ("", module.room)
    }


def test_the_drawn_layers_are_those_of_the_contract() -> None:
    layers = next(c["layers"] for c in contracts() if c["type"] == "layers")
    assert isinstance(layers, list)
    assert drawn_layers() == [[room.strip() for room in str(x).split("|")] for x in layers]


def test_the_drawn_arrows_are_those_of_the_code() -> None:
    """The table's last column: every room that a room imports, and none that it does not."""
    there = {(a, b) for a, b in arrows() if b not in EVERYWHERE}
    drawn = {
        (row[0].strip("` "), room)
        for row in table("Rooms")
        for room in re.findall(r"`(\w+)`", row[-1])
    }
    assert drawn == there


def table(title: str) -> list[list[str]]:
    """The rows of a section's table, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_room_is_drawn_and_says_what_it_answers() -> None:
    rows = table("Rooms")
    assert {row[0].strip("`") for row in rows} == rooms()
    assert len(rows) == len(rooms())
    assert all(row[1].endswith("?") and row[2] for row in rows)


def journeys() -> dict[str, list[str]]:
    """The modules that each journey names, in order."""
    found = {}
    for part in section("Journeys").split("\n### ")[1:]:
        paths = dict.fromkeys(p for p in PATH.findall(part) if p.endswith(".py"))
        names = [p.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for p in paths]
        found[part.splitlines()[0]] = names
    return found


def joined(a: str, b: str) -> bool:
    """Whether one of two modules imports the other."""
    return any(b == name for _, name in MODULES[a].imports) or any(
        a == name for _, name in MODULES[b].imports
    )


def test_no_module_needs_itself() -> None:
    """Circles of imports, those for types among them: such modules are one, or cut wrongly."""
    needs = {
        name: {m for _, m in module.imports if m in MODULES and m != name}
        for name, module in MODULES.items()
        if module.path.name != "__init__.py"  # it hands on what its modules define
    }
    while free := {name for name, others in needs.items() if not others & needs.keys()}:
        needs = {name: others for name, others in needs.items() if name not in free}
    assert not needs, sorted(needs)


def test_a_journey_is_one_way_through_the_code() -> None:
    """Imports join the files that a journey names; probes are started instead."""
    assert len(journeys()) == 5
    for title, named in journeys().items():
        ours = [name for name in named if MODULES[name].room != "probes"]
        assert len(ours) > 5, title
        reached, left = set(ours[:1]), set(ours[1:])
        while near := {n for n in left if any(joined(n, other) for other in reached)}:
            reached |= near
            left -= near
        assert not left, title


# Tests stand where what they test stands.

NO_ROOM = {"data", "helpers", "fuzz", "faults", "benchmarks", "gpu"}
"""Folders of tests that are of no room: what tests read and share, and what is run by hand."""


def test_tests_mirror_the_house() -> None:
    """Each folder of tests has its room, or a folder of programs that the project brings."""
    tests = ROOT / "tests"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")} - {Path()}
    assert {Path("parsers"), Path("probes/emulator"), Path("tui/app")} <= folders
    assert not [
        f"tests/{folder}"
        for folder in sorted(folders)
        if folder.parts[0] not in NO_ROOM
        and not any(
            place.is_dir() or place.with_suffix(".py").is_file()
            for place in (HOUSE / folder, ROOT / folder)
        )
    ]


# -- the boundary ---------------------------------------------------------------------------------

# Our own processes, and the device that takes the place of torch's own functions.
BEYOND_THE_BOUNDARY = ("replay", "cross_compile", "emulator")
# The boundary itself, and what it stands on, which guards its own fork handlers.
BOUNDARY = ("inspector.probes.hooks", "inspector.probes.writer")
HELD = re.compile(r"_?(original|inner|wrapped|genuine)")


def _calls_of_what_was_replaced(module: Module) -> Iterator[str]:
    """Calls of a parameter of an enclosing function, of a name that holds what was replaced, and
    calls that pass a function's own ``*args, **kwargs`` on."""
    tree = module.nodes[0]

    def visit(node: ast.AST, outer: frozenset[str], own: ast.arguments | None) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            if own is not None:
                outer |= {a.arg for a in (*own.posonlyargs, *own.args, *own.kwonlyargs)}
            hidden = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
            outer, own = outer - hidden, node.args
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            last = name.rpartition(".")[2]
            starred = {ast.unparse(a.value) for a in node.args if isinstance(a, ast.Starred)}
            doubled = {ast.unparse(k.value) for k in node.keywords if k.arg is None}
            forwards = (
                own is not None
                and own.vararg is not None
                and own.kwarg is not None
                and own.vararg.arg in starred
                and own.kwarg.arg in doubled
            )
            if name in outer or HELD.fullmatch(last) or forwards:
                yield f"{module.name}:{node.lineno} calls {name}"
        for child in ast.iter_child_nodes(node):
            yield from visit(child, outer, own)

    yield from visit(tree, frozenset(), None)


def test_the_boundary_alone_calls_what_a_probe_has_replaced() -> None:
    """One function can be right; a wrapper that guards itself will forget one day."""
    within_the_program = [
        module
        for module in PROBES
        if module.name not in BOUNDARY
        and not within(module.name, *(f"inspector.probes.{room}" for room in BEYOND_THE_BOUNDARY))
    ]
    faults = [fault for m in within_the_program for fault in _calls_of_what_was_replaced(m)]
    assert not faults, "\n".join(faults)


def test_a_wrapper_that_calls_the_original_itself_is_found(tmp_path: Path) -> None:
    file = tmp_path / "probe.py"
    file.write_text(
        "def a(original):\n    def call(*args, **kwargs):\n        return original(*args)\n"
        "def b(f):\n    return lambda x: f(x)\n"
        "def c(*args, **kwargs):\n    return there(*args, **kwargs)\n"
        "class D:\n    def e(self):\n        return self._inner()\n"
        "def fine(f, *args):\n    f()\n    print(*args)\n"
    )
    found = list(_calls_of_what_was_replaced(Module("probe", file)))
    assert found == [
        "probe:3 calls original",
        "probe:5 calls f",
        "probe:7 calls there",
        "probe:10 calls self._inner",
    ]


# -- assertions in loops --------------------------------------------------------------------------

TEST_MODULES = [
    Module(path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."), path)
    for path in sorted((ROOT / "tests").rglob("*.py"))
]
METHODS_OF_ALL = words("items keys values split splitlines")
"""Methods whose result has an element if their object has one."""
FUNCTIONS_OF_ALL = words("enumerate zip sorted reversed list tuple set product words")
"""Functions whose result has an element if each of their arguments has one."""


def called_name(node: ast.AST) -> str:
    """``f`` of ``f(x)``, ``await f(x)`` and ``a.f(x)``; "" of anything else."""
    if isinstance(node, ast.Await):
        return called_name(node.value)
    if not isinstance(node, ast.Call):
        return ""
    return ast.unparse(node.func).rpartition(".")[2]


def never_empty(node: ast.AST | None, literals: frozenset[str]) -> bool:
    """Whether an iterable evidently has an element: a literal, a constant, or made of such."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        starred = [x.value for x in node.elts if isinstance(x, ast.Starred)]
        return len(starred) < len(node.elts) or any(never_empty(x, literals) for x in starred)
    if isinstance(node, ast.Dict):
        return bool(node.keys)
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, ast.Name):
        return node.id.isupper() or node.id in literals
    if not isinstance(node, ast.Call):
        return False
    name = called_name(node)
    if name == "range":
        return all(isinstance(bound, ast.Constant) for bound in node.args)
    if name in FUNCTIONS_OF_ALL:
        return bool(node.args) and all(never_empty(x, literals) for x in node.args)
    if isinstance(node.func, ast.Attribute) and name in METHODS_OF_ALL:
        return never_empty(node.func.value, literals)
    return False


def literal_names(function: ast.AST) -> frozenset[str]:
    """Names to which a function gives a literal that is not empty."""
    names: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign) and never_empty(node.value, frozenset()):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(target.id for target in targets if isinstance(target, ast.Name))
    return frozenset(names)


def holds_of_nothing(test: ast.AST, literals: frozenset[str]) -> bool:
    """Whether a condition is ``not […]``, ``[…] == []``, ``not any(…)`` or ``all(…)`` of what may
    be empty."""
    loops: ast.AST | None = None
    if called_name(test) == "all":
        loops = argument(test)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        is_any = called_name(test.operand) == "any"
        loops = argument(test.operand) if is_any else test.operand
    elif isinstance(test, ast.Compare) and ast.unparse(test.comparators[0]) == "[]":
        loops = test.left
    if not isinstance(loops, ast.ListComp | ast.GeneratorExp):
        return False
    return not all(never_empty(loop.iter, literals) for loop in loops.generators)


def argument(node: ast.AST) -> ast.AST | None:
    """The first argument of a call."""
    return node.args[0] if isinstance(node, ast.Call) and node.args else None


def assertions(
    node: ast.AST, helpers: frozenset[str], literals: frozenset[str], in_loop: bool = False
) -> Iterator[bool]:
    """Of each assertion below a node, whether it may be about nothing, as a loop may be empty."""
    if isinstance(node, ast.For | ast.AsyncFor):
        in_loop = in_loop or not never_empty(node.iter, literals)
    is_statement = isinstance(node, ast.Expr) and called_name(node.value) in helpers
    if isinstance(node, ast.Assert):
        yield in_loop or holds_of_nothing(node.test, literals)
    elif is_statement or called_name(node) in ("raises", "fail"):
        yield in_loop
    for child in ast.iter_child_nodes(node):
        yield from assertions(child, helpers, literals, in_loop)


def asserting_functions(modules: Iterable[Module]) -> frozenset[str]:
    """Names of functions that assert something, with any arguments."""
    return frozenset(
        node.name
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not all(assertions(node, frozenset(), literal_names(node)))
    )


def vacuous_tests(modules: list[Module]) -> Iterator[str]:
    """Tests all of whose assertions may be about nothing."""
    helpers = asserting_functions(modules)
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                is_in_loop = list(assertions(node, helpers, literal_names(node)))
                if node.name.startswith("test_") and is_in_loop and all(is_in_loop):
                    yield f"{module.name}:{node.lineno} {node.name}"


def test_no_assertion_is_only_in_a_loop_that_may_be_empty() -> None:
    assert len(TEST_MODULES) > 100
    faults = list(vacuous_tests(TEST_MODULES))
    assert not faults, "assert that the loop has elements:\n" + "\n".join(faults)


def test_an_assertion_in_a_loop_that_may_be_empty_is_found(tmp_path: Path) -> None:
    file = tmp_path / "test_loops.py"
    file.write_text(
        "def check(x):\n    assert x\n"
        "def check_all(xs):\n    for x in xs:\n        assert x\n"
        "def test_a():\n    for x in f():\n        assert x\n"
        "def test_b():\n    for x in (1, 2):\n        for y in f(x):\n            check(y)\n"
        "async def test_c():\n    async for x in f():\n        with raises(E):\n            x()\n"
        "def test_d():\n    for n in range(len(XS)):\n        assert n\n"
        "def test_e():\n    assert not any(x for x in f())\n"
        "def test_f():\n    assert all(x for x in f())\n"
        "def test_g():\n    assert [x for x in f() if not x] == []\n"
        "def test_list():\n    assert [x for x in f() if x]\n"
        "def test_some():\n    assert any(x for x in f())\n"
        "def test_not_all():\n    assert not all(x for x in f())\n"
        "def test_literals():\n    for n, x in enumerate(sorted((1, *f()))):\n        assert x\n"
        "def test_local():\n    xs: T = {1: 2}\n    for x in xs.items():\n        assert x\n"
        "def test_constants():\n    for n, x in XS.items():\n        assert x\n"
        "def test_before():\n    xs = f()\n    assert xs\n    for x in xs:\n        assert x\n"
        "def test_helper():\n    for x in f():\n        assert x\n    check(x)\n"
        "def test_helper_that_loops():\n    for x in f():\n        assert x\n    check_all(x)\n"
    )
    faults = [fault.split()[1] for fault in vacuous_tests([Module("m", file)])]
    letters = [f"test_{letter}" for letter in "abcdefg"]
    assert faults == [*letters, "test_helper_that_loops"]
