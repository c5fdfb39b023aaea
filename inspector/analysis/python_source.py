"""A function cut out of a file of Python, with all of the file that it needs and nothing else.

What a function needs are the names that it reads and does not bind: imports, assignments, classes
and other functions at the top of its module, and what these need in turn. The text is parsed and
never run.
"""

import ast
import builtins
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath

from msgspec import Struct

from inspector.base.errors import Unreadable, UsageError
from inspector.base.grouping import by_key

KNOWN_PACKAGES = frozenset(sys.stdlib_module_names) | {"torch", "triton", "numpy"}
"""What a script may import that is to run wherever torch is."""
# Python's own: a form feed and a line separator end no line of it.
_LINE_END = re.compile(r"\r\n|\r|\n")
_JIT = re.compile(r"(?:\w+\.)*jit")
_TUNER = re.compile(r"(?:\w+\.)*(?:autotune|heuristics)(?:\(|$)|triton_heuristics\.")
"""Decorators that choose a configuration or launch through Inductor; the script has the choice."""


class CutSource(Struct, frozen=True):
    """A function's text with what it needs.

    ``future`` are the features that its file imports from the future, ``imports`` lines,
    ``statements`` texts in the order of the file, ``places`` the file and the first line of each
    (line 0 where it is no text of the file), ``outside`` packages that are imported and not
    everybody has, ``unknown`` names that are bound nowhere.
    """

    name: str
    future: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    places: tuple[tuple[str, int], ...] = ()
    outside: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "\n\n\n".join(self.statements)


class _Module(Struct):
    """A file that is cut: its lines, and which statement of it binds which name."""

    path: str
    lines: list[str]
    tree: ast.Module
    bound: dict[str, list[ast.stmt]]


def python_literal(value: object) -> str:
    """A number, a text, None or a list of them as Python writes it."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f'float("{value}")'
    if isinstance(value, list | tuple):
        inside = ", ".join(map(python_literal, value))
        return f"({inside}{',' if len(value) == 1 else ''})"
    literal = repr(value)
    same_in_quotes = isinstance(value, str) and literal[1:-1] == value and '"' not in value
    return f'"{value}"' if same_in_quotes else literal


def cut_function(
    text: str,
    path: str,
    name: str,
    line: int | None = None,
    *,
    recorded: Mapping[str, Mapping[str, object]] | None = None,
    other_files: Mapping[str, str] | None = None,
    extra_functions: Iterable[str] = (),
    jitted: bool = True,
) -> CutSource:
    """The function ``name`` of a file with all that it needs.

    Args:
        line: a line of the function, where several have its name.
        recorded: globals, by file and name, as they were when it was compiled; they win over the
            file's assignments.
        other_files: texts of further files by path, in which its imports are looked up.
        extra_functions: names of functions to add.
        jitted: leave out decorators that tune it.

    Raises:
        Unreadable: the text is no Python of this version, or nested too deep.
        UsageError: the file has no such function.
    """
    cutter = _Cutter(recorded or {}, other_files or {})
    module = _module(text, path)
    named = [n for n in ast.walk(module.tree) if isinstance(n, ast.FunctionDef) and n.name == name]
    last = named[-1] if named else None
    around = [n for n in named if line and _first(n) <= line <= (n.end_lineno or n.lineno)]
    function = around[-1] if around else last
    if function is None:
        raise UsageError(
            f"{PurePath(path).name} has no function {name}",
            "The file may have been changed since it was recorded." if jitted else "",
        )
    try:
        cutter.add_statement(module, function, cutter.function_text(module, function, jitted))
        for function_name in extra_functions:
            cutter.need_anywhere(module, function_name)
    except RecursionError:
        raise Unreadable(f"what {name} needs of {PurePath(path).name} is nested too deep") from None
    return cutter.cut(name, module)


def _module(text: str, path: str) -> _Module:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        message = getattr(error, "msg", None) or str(error)
        raise Unreadable(
            f"{PurePath(path).name} is not Python that can be read here: {message}"
        ) from None
    bound = by_key(
        (name, statement)
        for statement in tree.body
        if not (isinstance(statement, ast.If) and "__name__" in ast.dump(statement.test))  # main
        for name in _binds(statement)
    )
    return _Module(path, _LINE_END.split(text), tree, bound)


def _binds(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield from _binds(child)
        elif isinstance(child, ast.ExceptHandler):
            for inner in child.body:
                yield from _binds(inner)
        elif isinstance(child, ast.alias):
            yield child.asname or child.name.partition(".")[0]
        else:
            stored = (n for n in ast.walk(child) if isinstance(n, ast.Name))
            yield from (name.id for name in stored if isinstance(name.ctx, ast.Store))


def _first(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def _reads(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that are read and not bound within; annotations that are text are not evaluated."""
    read: set[str] = set()
    bound: set[str] = set()
    for top in nodes:
        for node in ast.walk(top):
            if isinstance(node, ast.Name):
                (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
    return read - bound


class _Cutter:
    """Collects what is needed, each statement once."""

    def __init__(
        self, recorded: Mapping[str, Mapping[str, object]], other_files: Mapping[str, str]
    ) -> None:
        self._recorded = recorded
        self._other_files = dict(other_files)
        self._modules: dict[str, _Module] = {}
        self._texts: dict[tuple[str, int], tuple[int, str]] = {}
        self._imports: dict[str, None] = {}
        self._outside: dict[str, None] = {}
        self._unknown: dict[str, None] = {}
        self._resolved: set[tuple[str, str]] = set()
        self._attributes: dict[str, set[str]] = {}
        self._owners: dict[str, str] = {}  # names that are not imported, and the file they are of

    def cut(self, name: str, module: _Module) -> CutSource:
        future = tuple(
            alias.name
            for statement in module.tree.body
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
            for alias in statement.names
        )
        # Code of other files comes first; within a file the order is kept.
        paths = dict.fromkeys(path for path, _ in self._texts)
        other_paths = [path for path in reversed(paths) if path != module.path]
        order = {path: n for n, path in enumerate([*other_paths, module.path])}
        keys = sorted(self._texts, key=lambda key: (order[key[0]], self._texts[key][0]))
        return CutSource(
            name,
            future,
            tuple(sorted(self._imports)),
            tuple(self._texts[k][1] for k in keys),
            tuple((path, self._texts[path, line][0] if line > 0 else 0) for path, line in keys),
            tuple(self._outside),
            tuple(self._unknown),
        )

    def add_statement(self, module: _Module, node: ast.stmt, text: str) -> None:
        key = (module.path, _first(node))
        if key in self._texts:
            return
        # Decorators may be left out: what remains ends where it ended.
        first = _first(node) if node.end_lineno is None else node.end_lineno - text.count("\n")
        self._texts[key] = (first, text)
        try:
            body = ast.parse(text).body
        except SyntaxError:
            body = [node]
        for descendant in (n for top in body for n in ast.walk(top)):
            if isinstance(descendant, ast.Attribute) and isinstance(descendant.value, ast.Name):
                self._attributes.setdefault(descendant.value.id, set()).add(descendant.attr)
        for name in sorted(_reads(body)):
            self._need(module, name)

    def need_anywhere(self, module: _Module, name: str) -> None:
        """A function of that name, of this file or of the first other one that has it."""
        path = next((p for p, text in self._other_files.items() if f"def {name}(" in text), None)
        if name not in module.bound and path is not None:
            module = self._modules.setdefault(path, _module(self._other_files[path], path))
        self._need(module, name)

    def _need(self, module: _Module, name: str) -> None:
        if (module.path, name) in self._resolved:
            return
        self._resolved.add((module.path, name))
        recorded = self._recorded.get(module.path, {})
        statements = module.bound.get(name, [])
        if name in recorded and not any(
            isinstance(s, ast.FunctionDef | ast.ClassDef) for s in statements
        ):
            # A kernel sees no global but a constexpr, even if the program allowed it.
            line = statements[0].lineno if statements else 0
            literal = python_literal(recorded[name])
            self._replace_line(module, line, f"{name} = tl.constexpr({literal})")
            return
        owner = module.path
        if any(not isinstance(s, ast.Import | ast.ImportFrom) for s in statements):
            owner = self._owners.setdefault(name, module.path)
        if owner != module.path:
            raise UsageError(
                f"{PurePath(owner).name} and {PurePath(module.path).name} both define {name}, and "
                "one script cannot hold both"
            )
        if not statements and not hasattr(builtins, name):
            self._need_unbound(module, name)
        for statement in statements:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self._import(module, statement, name)
            elif isinstance(statement, ast.FunctionDef):
                self.add_statement(module, statement, self.function_text(module, statement, True))
            else:
                lines = module.lines[_first(statement) - 1 : statement.end_lineno]
                self.add_statement(module, statement, "\n".join(lines))

    def _replace_line(self, module: _Module, line: int, text: str) -> None:
        """Our text in place of that line of the file."""
        self._texts[module.path, -len(self._texts) - 1] = (line, text)

    def _need_unbound(self, module: _Module, name: str) -> None:
        stars = [
            s
            for s in module.tree.body
            if isinstance(s, ast.ImportFrom) and any(a.name == "*" for a in s.names)
        ]
        for star in stars:
            if (other := self._imported_file(module, star.module, star.level)) is None:
                self._imports[ast.unparse(star)] = None
                self._note_outside_package(star.module)
            elif name in other.bound:
                self._need(other, name)
                return
        if not stars:
            self._unknown[name] = None

    def function_text(self, module: _Module, node: ast.FunctionDef, jitted: bool) -> str:
        """A function without the decorators that tune it; jitted if it is to be."""
        decorators = [ast.unparse(d) for d in node.decorator_list]
        if jitted:
            decorators = [text for text in decorators if not _TUNER.match(text)]
        body = textwrap.dedent("\n".join(module.lines[node.lineno - 1 : node.end_lineno]))
        return "\n".join([*(f"@{text}" for text in decorators), body])

    def _import(self, module: _Module, statement: ast.Import | ast.ImportFrom, name: str) -> None:
        alias = next(
            (a for a in statement.names if (a.asname or a.name.partition(".")[0]) == name), None
        )
        if alias is None:
            return
        line: ast.stmt = ast.Import([alias])
        package = alias.name
        if isinstance(statement, ast.Import):
            binds_module = alias.asname is not None or "." not in alias.name
            inlined = binds_module and self._whole_module(module, None, 0, alias.name, name)
        else:
            other = self._imported_file(module, statement.module, statement.level)
            if other is not None and alias.name in other.bound:
                self._need(other, alias.name)
                if alias.asname and alias.asname != alias.name:
                    self._replace_line(module, 0, f"{alias.asname} = {alias.name}")
                return
            line = ast.ImportFrom(statement.module, [alias], statement.level)
            package = "." * statement.level + (statement.module or "")
            inlined = self._whole_module(
                module, statement.module, statement.level, alias.name, name
            )
        if not inlined:
            self._imports[ast.unparse(line)] = None
            self._note_outside_package(package)

    def _note_outside_package(self, package: str | None) -> None:
        if (package or "").partition(".")[0] not in KNOWN_PACKAGES:
            self._outside[package or "."] = None

    def _whole_module(
        self, module: _Module, package: str | None, level: int, imported: str, name: str
    ) -> bool:
        """A module of which the kernel reads attributes: one of its name that has just these."""
        other = self._imported_file(module, ".".join(filter(None, (package, imported))), level)
        if other is None:
            return False
        lines = [f'{name} = types.ModuleType("{name}")']
        for attribute in sorted(self._attributes.get(name, set()) & other.bound.keys()):
            self._need(other, attribute)
            lines.append(f"{name}.{attribute} = {attribute}")
        self._imports["import types"] = None
        self._replace_line(module, 0, "\n".join(lines))
        return True

    def _imported_file(self, module: _Module, dotted: str | None, level: int) -> _Module | None:
        """The file that an import is from, if its text is at hand."""
        words = tuple(dotted.split(".")) if dotted else ()
        if not words or (not level and words[0] in KNOWN_PACKAGES):
            return None
        base = PurePath(module.path).parents[max(level - 1, 0)] if level else None
        for path in self._other_files:
            parts = PurePath(path.removesuffix(".py")).parts
            parts = parts[:-1] if parts[-1:] == ("__init__",) else parts
            if parts[-len(words) :] != words:
                continue
            if level and PurePath(*parts[: -len(words)]) != base:
                continue
            if path not in self._modules:
                self._modules[path] = _module(self._other_files[path], path)
            return self._modules[path]
        return None


def is_jitted(text: str) -> bool:
    """Whether one of a function's decorators makes a kernel of it."""
    function = next((n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)), None)
    decorators: list[ast.expr] = [] if function is None else function.decorator_list
    return any(_JIT.fullmatch(ast.unparse(d).partition("(")[0]) for d in decorators)
