"""The house's rules as failing tests: who imports what, who starts processes, who does I/O."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parent.parent / "inspector"
LONGEST = 700
MODULES = {
    ".".join(("inspector", *p.relative_to(HOUSE).with_suffix("").parts)).removesuffix(".__init__"):
        p for p in sorted(HOUSE.rglob("*.py"))
}  # fmt: skip
PROBES = {n: p for n, p in MODULES.items() if n.startswith("inspector.probes")}
OURS = {n: p for n, p in MODULES.items() if n not in PROBES}
PURE = {
    n: p for n, p in OURS.items()
    if n.split(".")[1:2] and n.split(".")[1] in ("listing", "analyse", "report")
}  # fmt: skip
STARTS = ("exec", "spawn", "posix_spawn", "system", "popen", "fork", "startfile")
READS = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "glob", "rglob",
         "mkdir", "unlink", "rename", "replace", "touch", "stat", "exists", "is_file", "is_dir",
         "resolve"}  # fmt: skip


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def imports(name: str, path: Path) -> Iterator[str]:
    """Every module that a module names in an import, relative ones resolved, lazy ones too."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            module = ".".join([*(base if node.level else []), *([node.module or ""])]).strip(".")
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def within(module: str, *packages: str) -> bool:
    return any(module == p or module.startswith(p + ".") for p in packages)


def test_importing_the_command_line_loads_no_torch_triton_or_textual() -> None:
    code = "import sys, inspector.cli; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "inspector" in loaded
    assert not {"torch", "triton", "textual", "rich", "pygments", "elftools"} & set(loaded)


@pytest.mark.parametrize("command", ["list", "show", "explain", "doctor", "open"])
def test_commands_that_print_load_no_torch_triton_or_textual(command: str) -> None:
    data = HOUSE.parent / "tests" / "data" / "core" / "lecture"
    words = {
        "list": [str(data)],
        "open": [str(data)],
        "doctor": [],
        "explain": ["ld"],
        "show": [str(data), "matmul_kernel", "--json"],
    }[command]
    code = (
        "import sys\nfrom inspector.cli import main\n"
        f"assert main({[command, *words]!r}) == 0\n"
        "print(*sorted({m.split('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "triton", "textual"} & set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("name", sorted(OURS))
def test_nothing_of_ours_imports_torch_triton_or_the_probes(name: str) -> None:
    for module in imports(name, OURS[name]):
        assert not within(module, "torch", "triton", "inspector.probes", "ptxview_probes")


@pytest.mark.parametrize("name", sorted(PROBES))
def test_probes_import_nothing_of_ours(name: str) -> None:
    allowed = {*sys.stdlib_module_names, "torch", "triton", "numpy", "ptxview_probes"}
    for module in imports(name, PROBES[name]):
        if within(module, "inspector"):
            assert within(module, "inspector.probes"), module
        else:
            assert module.split(".")[0] in allowed, module


@pytest.mark.parametrize("name", sorted(set(OURS) - {"inspector.process", "inspector.attended"}))
def test_only_process_starts_processes(name: str) -> None:
    for module in imports(name, OURS[name]):
        assert not within(module, "subprocess", "multiprocessing", "pty"), module
        assert not within(module, "concurrent.futures.process"), module
        assert not module.endswith(".ProcessPoolExecutor"), module
    for node in ast.walk(parsed(OURS[name])):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in ("os", "asyncio"):
                assert not node.attr.startswith((*STARTS, "create_subprocess")), node.attr
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            assert not any(alias.name.startswith(STARTS) for alias in node.names)


@pytest.mark.parametrize("name", [n for n in sorted(OURS) if not within(n, "inspector.tui")])
def test_only_the_interface_imports_textual(name: str) -> None:
    assert not any(within(module, "textual") for module in imports(name, OURS[name]))


OPENS = {"open", "ZipFile", "TarFile", "read_text", "read_bytes", "mmap", "fromfile"}
LISTS = {"iterdir", "scandir", "listdir", "walk", "rglob"}
WRITES = re.compile("[wax]b?[+]?")
# Whether the folder to record into is empty: of its names nothing is kept.
LOOKS = {("inspector.capture.running", "iterdir")}


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


@pytest.mark.parametrize("name", sorted(set(OURS) - {"inspector.files"}))
def test_only_files_opens_what_it_did_not_write(name: str) -> None:
    for node in ast.walk(parsed(OURS[name])):
        if not isinstance(node, ast.Call) or of_the_kernel(node):
            continue
        called = node.func
        word = called.attr if isinstance(called, ast.Attribute) else ast.unparse(called)
        if word in OPENS and not writes(node):
            pytest.fail(f"{name}:{node.lineno} calls {word}: inspector.files reads")
        of_syntax = isinstance(called, ast.Attribute) and ast.unparse(called.value) == "ast"
        if word in LISTS and not of_syntax and (name, word) not in LOOKS:
            pytest.fail(f"{name}:{node.lineno} calls {word}: inspector.files lists folders")


@pytest.mark.parametrize("name", sorted(PURE))
def test_listing_analyse_and_report_do_no_io(name: str) -> None:
    forbidden = ("inspector.recording", "inspector.process", "inspector.attended",
                 "inspector.toolchain", "inspector.capture", "inspector.reading",
                 "inspector.commands", "inspector.tui",
                 "subprocess", "os", "socket", "tempfile", "shutil", "glob", "urllib",
                 "pathlib.Path", "io.open")  # fmt: skip
    for module in imports(name, PURE[name]):
        assert not within(module, *forbidden), module
    for node in ast.walk(parsed(PURE[name])):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name):
                assert called.id not in ("open", "print", "input"), node.lineno
            elif isinstance(called, ast.Attribute) and called.attr in READS - {"replace"}:
                # A string's or a text's own method is no I/O; a path's is.
                pytest.fail(f"{name}:{node.lineno} calls .{called.attr}()")


@pytest.mark.parametrize("name", sorted(set(OURS) - {"inspector.printing"}))
def test_only_the_printer_prints(name: str) -> None:
    """What strangers wrote reaches a terminal through one module, which makes it harmless."""
    streams = ("stdout", "stderr", "__stdout__", "__stderr__")
    for node in ast.walk(parsed(OURS[name])):
        if isinstance(node, ast.Name):
            assert node.id not in ("print", "input"), node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            printed = {"sys": streams, "os": ("ctermid", "ttyname"), "builtins": ("print",)}
            assert node.attr not in printed.get(node.value.id, ()), node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.module != "sys" or not {a.name for a in node.names} & set(streams)
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
            called = called.id if isinstance(called, ast.Name) else called
            # A console of Rich's own would be a second way out.
            assert called not in ("Console", "rich_print", "inspect", "print_help", "print_usage",
                                  "print_exc", "print_exception"), node.lineno  # fmt: skip
            if isinstance(node.func, ast.Attribute) and node.func.attr == "write" and node.args:
                first = node.args[0]
                assert not (isinstance(first, ast.Constant) and first.value in (1, 2)), node.lineno


@pytest.mark.parametrize("name", sorted(set(OURS) - {"inspector.recording"}))
def test_only_recording_knows_the_layout(name: str) -> None:
    for node in ast.walk(parsed(OURS[name])):
        if isinstance(node, ast.Constant) and node.value in ("events.jsonl", "blobs"):
            pytest.fail(f"{name}:{node.lineno} names {node.value}")


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_long_module_says_why(name: str) -> None:
    """A module is one thing, whole; one that is longer than most gives its reason."""
    if len(MODULES[name].read_text("utf-8").splitlines()) > LONGEST:
        assert "One module because" in (ast.get_docstring(parsed(MODULES[name])) or "")


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_module_says_what_it_is(name: str) -> None:
    assert ast.get_docstring(parsed(MODULES[name]))
