"""The schemas of JSON: of every command that prints any, compared with documents and documentation.

Every test that reads a command's JSON holds it against the schema too (tests/helpers/schemas.py).
To give a command a schema, add its tables to inspector/reference/json.toml, its section to
docs/reference/json.md, and a line of what it prints to ``LINES``.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import msgspec.structs
import pytest
from jsonschema import Draft202012Validator

from inspector.commands.cli import COMMANDS
from inspector.reader.tables import table
from inspector.render import profile, timings
from inspector.render.json_schema import JsonReference
from inspector.render.json_structs import STRUCTS, json_reference
from tests.helpers.nightly import nightly
from tests.helpers.pages import DOCS
from tests.helpers.profile_traces import Made
from tests.helpers.ptxview import LOST_SCALE, REPOSITORY, SAMPLE, Done, call
from tests.helpers.schemas import hold, validator
from tests.measure.profile.test_traces import of
from tests.measure.time import test_results as results

RECORDED = str(SAMPLE)
LECTURE = str(REPOSITORY / "tests" / "data" / "core" / "lecture")
LISTING = REPOSITORY / "tests" / "data" / "parsers"
NESTED = str(LISTING / "nested.ptx")
REFERENCE = json_reference(table("json"))
NEW = "NEW/"
"""A placeholder of a folder that a line writes to."""
LINES = [
    ["list", RECORDED],
    ["list", LECTURE],
    ["list", RECORDED, "--ops"],
    ["list", RECORDED, "--brief"],
    ["list", RECORDED, "--compiles"],
    ["list", RECORDED, "--guards"],
    ["list", RECORDED, "--by", "cost"],
    ["list", RECORDED, "--tunings"],
    ["list", RECORDED, "--timeline"],
    ["show", RECORDED, "gelu_kernel", "--stage", "source"],
    ["show", RECORDED, "ba6e6b76", "--beside", "source"],
    ["show", RECORDED, "softmax_kernel", "--stage", "sass"],
    ["show", RECORDED, "softmax_kernel", "--stage", "ttgir", "--execute"],
    ["show", RECORDED, "0/0"],
    ["show", RECORDED, "0/0", "--brief"],
    ["show", RECORDED, "ff3a7da2", "--brief", "--lines", "60:80"],
    ["diff", RECORDED, "square_grid_kernel", "square_loop_kernel"],
    ["diff", RECORDED, "square_grid_kernel", "square_loop_kernel", "--brief"],
    ["diff", RECORDED, "matmul_kernel", "--variants"],
    ["diff", RECORDED, "matmul_kernel", "--variants", "--brief"],
    ["diff", RECORDED, LECTURE],
    ["diff", RECORDED, LECTURE, "--brief"],
    ["diff", str(LISTING / "zoo_sm90.cubin"), str(LISTING / "zoo_sm75.cubin"), "--stage", "sass"],
    ["time", RECORDED, "--stored"],
    ["profile", "--stored", RECORDED],
    ["trace", RECORDED, "softmax_kernel", "--by", "source"],
    ["step", RECORDED, "softmax_kernel", "--commands", "step; print %r5; lanes %r5; list; what"],
    ["check", RECORDED, RECORDED, "--max-registers", "64", "--forbid", "small-grid"],
    ["explain", "ld.global.v4.b32", "HGMMA", "mbarrier", "%tid", "ldx"],
    ["doctor"],
    ["compile", NESTED, "--target", "sm_90,sm_100", "--no-tui", "-o", f"{NEW}x.ptxview"],
    ["try", RECORDED, "softmax_kernel", "--ptxas-options=-O1"],
    ["export", LECTURE, "-o", f"{NEW}page.html"],
    ["export", RECORDED, "softmax_kernel", "--without", "source,paths", "-o", f"{NEW}x.ptxview"],
    ["repro", RECORDED, "softmax_kernel"],
    ["upgrade", RECORDED, LECTURE, "--estimate", "0", "--no-new-spills"],
    ["verify", f"{NEW}lost_scale.ptxview"],
    ["passes", RECORDED, "square_kernel#1", "tritongpu-coalesce"],
]
# By day one line of each command: other tests compare most of what the others print.
FIRST_LINES = {line[0]: line for line in reversed(LINES)}
LINES_BY_DAY = [line if line is FIRST_LINES[line[0]] else nightly(line) for line in LINES]
# What these print is an interface, a shell's function, or a program's own output.
WITHOUT = {"run", "open", "ncu", "mcp", "completion"}


@pytest.fixture(scope="module")
def printed(
    tmp_path_factory: pytest.TempPathFactory, plain_python: Callable[..., str]
) -> Callable[[list[str]], Done]:
    """``printed(line)``: what a line prints as JSON, once; what it writes has a new folder.

    A child that needs torch or Triton is one of an interpreter that has imported it.
    """
    documents: dict[str, Done] = {}
    imports = {"verify": ("torch",), "try": (), "passes": ()}

    def output(line: list[str]) -> Done:
        key = " ".join(line)
        if key not in documents:
            folder = tmp_path_factory.mktemp("printed")
            shutil.copy(LOST_SCALE, folder)
            words = [word.replace(NEW, f"{folder}/") for word in line]
            if line[0] in imports:
                words += ["--python", plain_python(*imports[line[0]])]
            documents[key] = call(*words, "--json")
        return documents[key]

    return output


def prints_json(command: str) -> bool:
    """Whether a command has ``--json``."""
    parser = argparse.ArgumentParser(add_help=False)
    next(c for c in COMMANDS if c.name == command).function("arguments")(parser)
    return any("--json" in action.option_strings for action in parser._actions)


@pytest.mark.parametrize("command", [c.name for c in COMMANDS])
def test_a_command_with_json_has_a_schema_and_no_other_has(command: str) -> None:
    assert prints_json(command) is (command not in WITHOUT)
    assert (validator(command) is not None) is prints_json(command)
    if prints_json(command):
        assert command in {line[0] for line in LINES}, "nothing of it is compared with the schema"


@pytest.mark.parametrize(
    "line",
    LINES_BY_DAY,
    ids=lambda line: " ".join(w.split("/")[-1] for w in line),
)
def test_what_is_printed_is_as_the_schema_says(
    line: list[str], printed: Callable[[list[str]], Done]
) -> None:
    done = printed(line)
    assert done.out, done.said
    for document in done.text.splitlines():
        hold(line[0], json.loads(document))


def test_what_only_a_gpu_can_measure_is_as_the_schema_says() -> None:
    """Of made-up times and a made-up trace, put into words by what puts true ones into words."""
    failed = msgspec.structs.replace(results.BARE, stopwatch=None, cache=None, error="no memory")
    timed = timings.document(results.session(results.taken([2.0] * 60), failed))
    made = Made()
    made.launched(["aten::sum", "aten::sum"], "reduce", at=0, took=9)
    found = of(made)
    for command, document in (
        ("time", timed),
        ("time", {"schema": 1, "sessions": [timed], "rows": []}),
        ("profile", profile.document("x", [found.window], found, [])),
    ):
        hold(command, json.loads(json.dumps(document)))
        assert document["schema"] == 1


def objects(value: object) -> Iterator[dict[str, Any]]:
    """Every part of a schema that says which members an object has."""
    if isinstance(value, dict):
        if isinstance(value.get("properties"), dict):
            yield value
        for member in value.values():
            yield from objects(member)
    elif isinstance(value, list):
        for member in value:
            yield from objects(member)


@pytest.mark.parametrize("command", sorted({line[0] for line in LINES}))
def test_a_member_that_no_schema_names_is_refused(
    command: str, printed: Callable[[list[str]], Done]
) -> None:
    value = REFERENCE.schema(command)
    parts = list(objects(value))
    assert parts and all(part["additionalProperties"] is False for part in parts)
    line = next(line for line in LINES if line[0] == command)
    document = json.loads(printed(line).text.splitlines()[0])
    known = Draft202012Validator(value)  # type: ignore[arg-type]
    assert known.is_valid(document)
    assert not known.is_valid({**document, "undocumented": 1})
    assert not known.is_valid({k: v for k, v in document.items() if k != "schema"})
    deeper = copy.deepcopy(document)
    for member in deeper.values():
        inner = member[0] if isinstance(member, list) and member else member
        if isinstance(inner, dict) and "schema" not in inner and "name" in inner:
            inner["undocumented"] = 1
            assert not known.is_valid(deeper)
            break


def test_the_documented_fields_are_those_of_the_schemas() -> None:
    text = (DOCS / "reference" / "json.md").read_text("utf-8")
    assert set(re.findall(r"<!-- generated: fields (\w+) -->", text)) == set(REFERENCE.commands)


@pytest.mark.parametrize("name", STRUCTS)
def test_the_reference_repeats_no_type_of_a_printed_class(name: str) -> None:
    """``json.toml`` has descriptions, narrower types and added fields of a class, and no others."""
    of_class = JsonReference({}, STRUCTS).fields(name)
    assert of_class
    for key, value in table("json").get(name, {}).items():
        text = value if isinstance(value, str) else value[0]
        assert key == "_" or key not in of_class or text != of_class[key].type, key
