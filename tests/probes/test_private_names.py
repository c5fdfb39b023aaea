"""A library that calls something otherwise costs a recording that alone, which says so by its name.

Libraries here have every name that the probes know of but one, in a process each; then Triton and
torch as they are, with names hidden from the probes alone, of which the program must not notice.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspector.probes import private_names
from tests.probes.conftest import PROBES, Run, caches, forked, ok, parents

__all__ = ["caches", "forked", "parents"]  # fixtures
TABLES = private_names.tables()
NAMES = TABLES["names"]
LIBRARIES = ("torch", "triton", "cupy", "numba", "jax", "cuda", "pycuda", "cupti")
VERSIONS = {"torch": "2.13.0", "triton": "3.9.0"}
OUTSIDE = ("emulator", "replay", "ahead")
"""Rooms of parts that are written against a library's insides, and ask for them as a whole."""
STAND_INS = """
import os, sys
library, recordings, names, modules = sys.argv[1:]
sys.path.insert(0, library)
for number, name in enumerate(names.split()):
    if not os.fork():
        os.environ.update(WITHOUT=name, PTXVIEW_RECORDING=f"{recordings}/{number}")
        for module in modules.split():
            __import__(module)
        print("done", name, flush=True)
        os._exit(0)
    os.wait()
"""
WITHOUT = """
import os
def take(module, names):
    name, _, path = os.environ["WITHOUT"].partition(":")
    first, _, second = path.partition(".")
    if name == module and second:
        delattr(names[first], second)
    elif name == module:
        del names[first]
"""
PROGRAM = """
import torch, triton, triton.language as tl
import ptxview_probes.late as late
import ptxview_probes.private_names as private_names
import ptxview_probes.start as start
import os, sys
late.end()
HIDDEN = set(os.environ["HIDDEN"].split())
reach = private_names._reach
def hides(module, path):
    hidden = path and f"{module}:{path}" in HIDDEN
    return private_names._ABSENT if hidden else reach(module, path)
private_names._reach = hides
start._started.clear()  # attach again
late.begin()
torch._inductor.config.fx_graph_cache = False  # what makes a graph's code is to be seen

@triton.autotune([triton.Config({"B": 64}), triton.Config({"B": 128})], key=["n"])
@triton.jit
def twice_kernel(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

def run():
    x = torch.arange(128, device="cuda", dtype=torch.float32)
    out, numbers = torch.empty_like(x), torch.ones(4, dtype=torch.int64, device="cuda")
    twice_kernel[lambda m: (2,)](x, out, 128)
    assert out.tolist() == (x * 2).tolist()
    compiled = torch.compile(lambda a, n: torch.sin(a) + n.sum())
    assert torch.allclose(compiled(x, numbers), torch.sin(x) + 4)

run()
late.end()
print("done")
"""


def of_probes() -> Iterator[tuple[str, ast.AST]]:
    """Every node of every probe's syntax but the table's, with the probe's name."""
    for path in sorted(PROBES.rglob("*.py")):
        if path.name != "private_names.py":
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                yield str(path.relative_to(PROBES)), node


def owners() -> set[str]:
    """Names in the probes whose private attributes are ours: our modules, and ``self``."""
    own = {path.stem for path in PROBES.rglob("*.py")} | {
        p.parent.name for p in PROBES.rglob("*.py")
    }
    return own | {"self", "cls", "_now", "subjects", "compiles"}


def test_no_probe_asks_a_library_for_a_private_name_by_itself() -> None:
    ours, faults = owners(), []
    # Interpreters have no other way to say what these say, and they are Python's own for good.
    python = {"_exit", "_getframe", "_asdict", "_ptxview", "_fork_exec", "_python_exe"}
    known = {
        key.rpartition(".")[2].rpartition(":")[2]
        for key in (*NAMES, *(name for part in TABLES["parts"].values() for name in part))
    }
    for where, node in of_probes():
        inside = where.startswith(OUTSIDE)
        if isinstance(node, ast.ImportFrom) and node.level == 0 and not inside:
            module = node.module or ""
            if module.partition(".")[0] in LIBRARIES and module != "torch":
                faults.append(f"{where}:{node.lineno} imports from {module}")
        if not isinstance(node, ast.Attribute) or not re.fullmatch(r"_[a-zA-Z]\w*", node.attr):
            continue
        base = ast.unparse(node.value).rpartition(".")[2]
        if base in ours or node.attr in python:
            continue
        # torch._C is the library itself; its attributes have names in the table.
        if inside and (node.attr in known or node.attr in ("_C", "_dynamo")):
            continue
        if not inside:
            faults.append(f"{where}:{node.lineno} touches {ast.unparse(node)}")
    assert not faults, "\n".join(faults)


def test_every_name_is_one_that_a_probe_asks_for() -> None:
    texts = "\n".join(
        p.read_text("utf-8") for p in PROBES.rglob("*.py") if p.name != "private_names.py"
    )
    for key, row in NAMES.items():
        last = re.split(r"[.:]", key)[-1]
        assert re.search(rf"\b{last}\b", texts), f"no probe asks for {key}"
        assert row[0], f"what is lost without {key} is not said"


def stand_ins(folder: Path) -> list[str]:
    """Libraries with every name that is asked for; their modules, outer ones first.

    Each takes away what the environment says when it has run.
    """
    modules: dict[str, dict[str, set[str]]] = {}
    for key in NAMES:
        module, _, path = key.partition(":")
        first, _, second = path.partition(".")
        modules.setdefault(module, {}).setdefault(first, set()).update({second} if second else ())
    for module in (m for inner in TABLES["modules"].values() for m in inner):
        modules.setdefault(module, {})
    packages = {".".join(m.split(".")[:n]) for m in modules for n in range(1, m.count(".") + 1)}
    for name in sorted({*modules, *packages}):
        place = folder.joinpath(*name.split("."))
        file = place / "__init__.py" if name in packages else place.with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"__version__ = {VERSIONS.get(name, '1.0')!r}"]
        for first, methods in modules.get(name, {}).items():
            if methods or first[0].isupper():
                body = [f"    def {m}(self, choice=None): pass" for m in sorted(methods)]
                lines += [f"class {first}:", *(body or ["    pass"])]
            else:
                lines.append(f"def {first}(*args): pass")
        lines += ["import without", "without.take(__name__, globals())"]
        file.write_text("\n".join(lines) + "\n")
    (folder / "without.py").write_text(WITHOUT)
    return sorted(modules, key=lambda m: m.count("."))


def attached() -> list[str]:
    """Names that are asked for as soon as their module is imported, and modules."""
    lazily = (
        ":CompiledKernel",
        ":CompiledKernel._run",
        ":get_cache_manager",
        ":JITFunction",
        "_guards:",
        ":GraphLowering",
        ":DebugFormatter._write_ir",
        "structured:",
        ":get_path",
        "torch._C",
        ":V",
        ":CachingAutotuner",
        "cache_dir_utils",
        ":benchmarker",
        "_python_dispatch",
        "torch:Tensor",
        "torch.autograd:",
        "torch.cuda:_",
        "torch._dynamo.utils",
        "eval_frame",
        "optimizer:",
    )
    until = [k for k, row in NAMES.items() if row[3:] not in ([], [""])]
    return [
        k
        for k in NAMES
        if not k.endswith(lazily)
        and not any(part in k for part in lazily if part[0] != ":")
        and k not in until
    ]


def test_of_each_name_that_a_library_lacks_the_recording_tells(tmp_path: Path) -> None:
    """Each in a separate process, all of them forked from one."""
    names = ["nothing:nothing", *attached()]
    assert len(names) > 40
    modules = stand_ins(tmp_path / "lib")
    for number in range(len(names)):
        (tmp_path / str(number) / "blobs").mkdir(parents=True)
    env = {k: v for k, v in os.environ.items() if not k.startswith("PTXVIEW_")} | {
        "PYTHONPATH": str(PROBES / "bootstrap"),
        "PTXVIEW_RECORDING": str(tmp_path / "0"),
        "PTXVIEW_DRIVER": "1",
    }
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            STAND_INS,
            str(tmp_path / "lib"),
            str(tmp_path),
            " ".join(names),
            " ".join(modules),
        ],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"done {name}" for name in names]
    for number, without in enumerate(names):
        problems = [e for e in events(tmp_path / str(number)) if e["event"] == "problem"]
        told = {e["where"]: e["text"] for e in problems if "has no such" in e["text"]}
        if not number:
            assert not told
            continue
        name = without.replace(":", ".")
        assert NAMES[without][0] in told[name]
        # Of a class that is missing its methods are, too.
        assert all(other == name or other.startswith(f"{name}.") for other in told), without


def events(recording: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for file in sorted(recording.glob("events*.jsonl"))
        for line in file.read_text().splitlines()
    ]


NEEDED = {"triton.compiler.compiler:compile", "triton.runtime.autotuner:Autotuner"}
PROFILED = ("profiler", "torch.cuda:", "eval_frame", "optimizer", "torch._dynamo.utils", "cupti")


@pytest.mark.parametrize("turn", range(2))
def test_a_program_does_not_notice_what_its_libraries_lack(turn: int, forked: Run) -> None:
    """Triton and torch as they are, and names that the probes alone do not find."""
    torchs = [k for k in NAMES if k.startswith(("torch", "triton"))]
    hidden = [k for k in torchs if not any(part in k for part in PROFILED)]
    if turn:
        # Names that lead to others, which are asked for only if these exist.
        inner = (":CompiledKernel", ".codegen", "_guards", "get_path", "_write_ir", "make_launcher")
        hidden = [k for k in hidden if any(part in k for part in inner)]
    done = ok(forked(PROGRAM, env={"HIDDEN": " ".join(hidden)}, inductor=True))
    assert done.out == "done\n"
    told = {e["where"] for e in done.of("problem") if "has no such" in e["text"]}
    others = [e for e in done.of("problem") if "has no such" not in e["text"]]
    assert not [e for e in others if e["where"] != "target"], others
    assert told <= {k.replace(":", ".") for k in hidden}
    assert {"triton.compiler.compiler.CompiledKernel._init_handles"} <= told
    assert len(told) > (8 if turn else 25)


def test_the_names_of_this_torch_and_this_triton_are_all_there(forked: Run) -> None:
    done = ok(forked(PROGRAM, env={"HIDDEN": ""}, inductor=True))
    assert not [e for e in done.of("problem") if "has no such" in e["text"]]
    assert done.of("triton") and done.of("autotune") and done.of("graph_nodes")
