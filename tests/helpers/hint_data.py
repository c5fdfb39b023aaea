"""Compiled pairs of kernels, kept as text, and the subjects that hints see of them.

Made of ``ptxview run --target sm_90 -m kernels hint_cuda hint_triton`` with nvcc 13.0, Triton 3.9
and torch 2.13.
"""

from __future__ import annotations

import json
import lzma
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from inspector.analysis.function_facts import FunctionFacts
from inspector.analysis.hints.rules import hints
from inspector.analysis.hints.subject import Finding, HintSubject
from inspector.analysis.occupancy import Device
from inspector.base.model import Argument, Call, Kernel, Origin, Resources, Stage, Variant
from inspector.base.names import base_name
from inspector.parsers import parse
from inspector.parsers.line import Listing

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "analysis" / "hints" / "pairs.json.xz"
REFERENCE = ROOT / "inspector" / "reference"

THRESHOLDS = tomllib.loads((REFERENCE / "hints.toml").read_text("utf-8"))
DEVICES = tomllib.loads((REFERENCE / "devices.toml").read_text("utf-8"))
H200 = Device.of("sm_90", DEVICES["sm_90"])


@cache
def _data() -> Any:
    return json.loads(lzma.decompress(DATA.read_bytes()))


@cache
def _listing(key: str, stage: Stage) -> Listing:
    text, annotated = _data()["texts"][key]
    return parse(stage, text, annotated=annotated)


def _fields(said: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in said.items()}


def _call(said: dict[str, Any]) -> Call:
    fields = _fields(said)
    fields["arguments"] = tuple(Argument(**_fields(argument)) for argument in said["arguments"])
    return Call(**fields)


def subject_of(said: dict[str, Any], device: Device | None = H200) -> HintSubject:
    listings = {Stage(name): _listing(key, Stage(name)) for name, key in said["stages"].items()}
    functions = {
        stage: next((f for f in listing.functions if f.name == said["symbol"]), None)
        for stage, listing in listings.items()
    }
    fields = ("symbol", "target", "config", "signature", "specialization")
    variant = Variant("", "", **{name: said[name] for name in fields})
    kernel = Kernel(said["name"], said["name"], said["name"], Origin(said["origin"]), (variant,))
    calls = tuple(_call(call) for call in said["calls"])
    facts = {stage: FunctionFacts(listings[stage], f) for stage, f in functions.items() if f}
    resources = Resources(**said["resources"])
    return HintSubject(kernel, variant, resources, listings, functions, calls, device, facts=facts)


def pairs(name: str, **config: object) -> HintSubject:
    """The subject of a kernel by its name and what of its configuration tells it from others.

    ``columns`` is not configuration: it is the number of columns that it was launched with.
    """
    columns = config.pop("columns", None)
    found = [
        said
        for said in _data()["kernels"]
        if base_name(said["name"]) == name
        and all(said["config"].get(key) == value for key, value in config.items())
        and (columns is None or columns in _columns(said))
    ]
    assert len(found) == 1, [said["config"] for said in found]
    return subject_of(found[0])


def _columns(said: dict[str, Any]) -> set[object]:
    """Strides and columns of the launches: of ``scale_kernel`` they tell the variants apart."""
    return (
        {a["value"] for call in said["calls"] for a in call["arguments"] if a["name"] == "n_cols"}
        if "col_stride" not in _odd(said)
        else {"strided"}
    )


def _odd(said: dict[str, Any]) -> set[str]:
    """Integer arguments that are passed: those of value 1 are compiled in."""
    constant = {
        n for n, props in said["specialization"].items() if any(p[0] == "constant" for p in props)
    }
    return {n for n, kind in said["signature"].items() if kind == "i32"} - constant


def everything() -> list[HintSubject]:
    return [subject_of(said) for said in _data()["kernels"]]


def findings(subject: HintSubject) -> dict[str, Finding]:
    return {finding.rule: finding for finding in hints(subject, THRESHOLDS)}


def rules(subject: HintSubject) -> set[str]:
    return set(findings(subject))
