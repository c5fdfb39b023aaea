"""A library that calls something otherwise costs a recording that alone, which says so by its name.

Triton and torch are as they are, with names hidden from the probes alone, of which the program must
not notice.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from inspector.probes import private_names
from tests.probes.conftest import PROBES, Run, caches, forked, ok, parents

__all__ = ["caches", "forked", "parents"]  # fixtures
TABLES = private_names.tables()
NAMES = TABLES["names"]
LIBRARIES = ("torch", "triton", "cupy", "numba", "jax", "cuda", "pycuda", "cupti")
OUTSIDE = ("emulator", "replay", "cross_compile")
"""Rooms of parts that are written against a library's insides, and ask for them as a whole."""
PROGRAM = """
import torch, triton, triton.language as tl
import ptxview_probes.in_process as in_process
import ptxview_probes.private_names as private_names
import ptxview_probes.start as start
import os, sys
in_process.end()
HIDDEN = set(os.environ["HIDDEN"].split())
reach = private_names._reach
def hides(module, path):
    hidden = path and f"{module}:{path}" in HIDDEN
    return private_names._ABSENT if hidden else reach(module, path)
private_names._reach = hides
start._started.clear()  # attach again
in_process.begin()
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
in_process.end()
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
    return own | {"self", "cls", "_now", "compiles"}


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
