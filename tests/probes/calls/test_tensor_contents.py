"""Inputs of first calls are kept without the program being able to tell."""

import ast

import pytest

from tests.probes.conftest import Run, ok

KEEP = """
import os, sys, torch
from torch.utils._python_dispatch import TorchDispatchMode
os.environ["PTXVIEW_CONTENTS"] = "1000"
from ptxview_probes.calls import tensor_contents

seen = []
class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        seen.append(str(function))
        return function(*args, **(kwargs or {}))

description = {}
tensors = [(description, torch.tensor([1.0, float("nan"), 3.0]))]
"""


def test_a_copy_is_hidden_from_the_programs_modes(forked: Run) -> None:
    text = f"""{KEEP}
with Watching():
    tensor_contents.keep_inputs(tensors)
print([seen, "content" in description, description["low"], description["nans"]])
"""
    assert ast.literal_eval(ok(forked(text)).out) == [[], True, 1.0, 1]


@pytest.mark.parametrize(
    "state", ["torch.cuda.is_current_stream_capturing", "torch.cuda.get_sync_debug_mode"]
)
def test_nothing_is_copied_where_that_would_break_the_program(forked: Run, state: str) -> None:
    text = f"""{KEEP}
torch.cuda.is_initialized = lambda: True
torch.cuda.is_current_stream_capturing = lambda: False
torch.cuda.get_sync_debug_mode = lambda: 0
{state} = lambda: 1
tensor_contents.keep_inputs(tensors)
print(description)
"""
    assert ok(forked(text)).out == "{}\n"


def test_a_program_without_torch_stays_without_it(forked: Run) -> None:
    text = """
import os, sys
os.environ["PTXVIEW_CONTENTS"] = "1000"
modules = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith("torch")}
from ptxview_probes.calls import tensor_contents
tensor_contents.keep_inputs([])
print("torch" in sys.modules)
"""
    assert ok(forked(text)).out == "False\n"
