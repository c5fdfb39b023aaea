"""From a line of the user's model to SASS and back, through a real compile without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from inspector.base.model import MadeFrom, Origin, Recording, Stage, Variant
from inspector.reader.reader import Reader
from inspector.recording.layout import user_derived_cache
from inspector.sources.opening import open_path
from inspector.tui.app.app import PtxviewApp
from tests.helpers.ptxview import environment, ptxview, saved
from tests.helpers.sample import settle, text_of
from tests.probes.conftest import INDUCTOR, caches, parents, warm_python

__all__ = ["caches", "parents", "warm_python"]  # fixtures

SCRIPT = """
import torch

def model(x):
    y = torch.sin(x) * x
    return torch.relu(y) + 1.0

x = torch.randn(64, 256, device="cuda")
torch.testing.assert_close(torch.compile(model)(x), model(x))
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, warm_python: Callable[..., Path]) -> Path:
    """A recording of the script; the script is gone when it is read."""
    folder = tmp_path_factory.mktemp("model")
    script = saved(folder / "two_ops.py", SCRIPT)
    target = folder / "two.ptxview"
    # One kernel needs no pool of processes, which would all import torch.
    env = environment(TORCHINDUCTOR_COMPILE_THREADS="1")
    python = warm_python(*INDUCTOR)
    done = ptxview("run", "--no-tui", "-o", target, "--python", python, script, env=env)
    assert done.status == 0, done.said[-2000:]
    script.unlink()
    return target


def test_a_line_of_the_model_reaches_sass_and_back(recorded: Path) -> None:
    reader = Reader(open_path(recorded), user_derived_cache())
    kernel = next(k for k in reader.recording.kernels if k.origin is Origin.INDUCTOR)
    assert kernel.fusion is not None
    assert {"aten.sin", "aten.mul", "aten.relu", "aten.add"} <= set(kernel.fusion.ops)
    variant = kernel.variants[0]
    assert reader.stages.text(variant, Stage.SOURCE).text == SCRIPT
    lines = SCRIPT.split("\n")
    sine = next(n for n, text in enumerate(lines, 1) if "torch.sin" in text)
    for stage in (Stage.OUTPUT_CODE, Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX, Stage.SASS):
        down = reader.stages.links(variant, Stage.SOURCE, stage)
        up = reader.stages.links(variant, stage, Stage.SOURCE)
        assert set(down) == {sine, sine + 1}
        assert all(n in up[other] for n, others in down.items() for other in others)
        assert all(other in down[n] for other, found in up.items() for n in found)
    sass = reader.stages.listing(variant, Stage.SASS)
    down = reader.stages.links(variant, Stage.SOURCE, Stage.SASS)
    bases = {n: {sass.lines[o - 1].base for o in others} for n, others in down.items()}
    assert {"LDG", "FMUL"} <= bases[sine] and {"FADD", "STG"} <= bases[sine + 1]
    assert "STG" not in bases[sine] and "LDG" not in bases[sine + 1]
    located = [line.n for line in sass.lines if line.source is not None]
    up = reader.stages.links(variant, Stage.SASS, Stage.SOURCE)
    assert sum(n in up for n in located) > 0.95 * len(located)
    graph = reader.recording.graphs[0]
    code = reader.graphs.listing(graph)
    calls = [code.lines[n - 1].text for n in graph.calls[kernel.id]]
    assert "async_compile" in calls[0] and ".run(" in calls[1]


def test_the_json_says_what_it_was_made_from(recorded: Path) -> None:
    found = ptxview("list", "--json", recorded).json
    kernel = next(k for k in found["kernels"] if k["origin"] == "inductor")
    assert [m["code"] for m in kernel["made_from"]] == [
        "y = torch.sin(x) * x",
        "return torch.relu(y) + 1.0",
    ]
    assert kernel["variants"][0]["stages"][:2] == ["source", "output_code"]
    shown = ptxview(
        "show", "--json", "--stage", "source", recorded, kernel["variants"][0]["id"]
    ).json
    line = next(one for one in shown["lines"] if "torch.sin" in one["text"])
    assert line["links"]["sass"] and line["links"]["output_code"]


def in_two_files(rec: Recording) -> tuple[Recording, Variant, MadeFrom, MadeFrom]:
    """As if the sine were in another file of the program; then the two lines."""
    kernel = next(k for k in rec.kernels if k.origin is Origin.INDUCTOR)
    variant, fusion = kernel.variants[0], kernel.fusion
    assert fusion is not None
    sine, other = fusion.made_from
    sine = replace(sine, file="/program/activations.py")
    fusion = replace(fusion, made_from=(sine, other))
    variant = replace(variant, fusion=fusion)
    kernel = replace(kernel, variants=(variant,), fusion=fusion)
    files = {**rec.user_files, sine.file: rec.user_files[other.file]}
    return replace(rec, user_files=files, kernels=(kernel,)), variant, sine, other


def test_lines_of_several_source_files_lead_to_sass_and_back(recorded: Path) -> None:
    rec, variant, sine, other = in_two_files(open_path(recorded))
    reader = Reader(rec, user_derived_cache())
    assert [*reader.navigation.sources(variant)] == [other.file, sine.file]
    for path, line in ((other.file, other.line), (sine.file, sine.line)):
        shown = reader.navigation.sources(variant)[path]
        for stage in (Stage.OUTPUT_CODE, Stage.PTX, Stage.SASS):
            _, lines = reader.navigation.lines_at(shown, None, Stage.SOURCE, line, stage)
            assert reader.navigation.lines_at(variant, None, stage, lines[0], Stage.SOURCE) == (
                path,
                (line,),
            )


@pytest.mark.asyncio
async def test_keys_lead_through_source_files_graphs_and_costs_to_the_kernel(
    recorded: Path,
) -> None:
    rec, _, sine, other = in_two_files(open_path(recorded))
    app = PtxviewApp(Reader(rec, user_derived_cache()))
    async with app.run_test(size=(100, 40)) as pilot:
        screen = await settle(pilot)
        await pilot.press("$")
        await settle(pilot)
        assert f"Cost · two_ops.py:{other.line}" in text_of(pilot)
        await pilot.press("enter")
        await settle(pilot)
        pane = screen.panes.panes[0]
        assert (pane.stage, pane.view.cursor) == (Stage.SOURCE, other.line)
        for name, line in (("activations.py", sine.line), ("two_ops.py", other.line)):
            await pilot.press("1")
            await settle(pilot)
            assert name in text_of(pilot) and pane.view.cursor == line
        await pilot.press("b", "k", "8")
        await settle(pilot)
        assert screen.panes.subject.kernel is None
        await pilot.press("tab", "g", *"jjj", "enter")
        await settle(pilot)
        assert screen.panes.subject.kernel == rec.kernels[0]


@pytest.mark.asyncio
async def test_the_key_of_sass_lands_on_arithmetic_of_the_model_line(recorded: Path) -> None:
    rec = open_path(recorded)
    reader = Reader(rec, user_derived_cache())
    kernel = next(k for k in rec.kernels if k.origin is Origin.INDUCTOR)
    sine = next(n for n, text in enumerate(SCRIPT.split("\n"), 1) if "torch.sin" in text)
    sass = reader.stages.listing(kernel.variants[0], Stage.SASS)
    siblings = reader.stages.links(kernel.variants[0], Stage.SOURCE, Stage.SASS)[sine]
    app = PtxviewApp(reader)
    async with app.run_test(size=(160, 40)) as pilot:
        screen = await settle(pilot)
        screen.panes.to(Stage.SOURCE, sine)
        await settle(pilot)
        await pilot.press("7")
        await settle(pilot)
        view = screen.panes.active.view
        assert screen.panes.active.stage is Stage.SASS and view.cursor in siblings
        assert str(sass.lines[view.cursor - 1].base).startswith(("F", "MUFU"))
        landed = view.cursor
        await pilot.press("n")
        await settle(pilot)
        assert view.cursor == next(n for n in siblings if n > landed)
        await pilot.press("I")
        await settle(pilot)
        assert f"two_ops.py:{sine}" in text_of(pilot) and "of the model" in text_of(pilot)


def test_locations_in_another_file_of_the_same_kernel_lead_to_the_graphs_code(
    recorded: Path,
) -> None:
    reader = Reader(open_path(recorded), user_derived_cache())
    kernel = next(k for k in reader.recording.kernels if k.origin is Origin.INDUCTOR)
    variant = kernel.variants[0]
    assert variant.embedded is not None
    other = replace(variant, embedded=("/other/file.py", variant.embedded[1]))
    stages = reader.stages
    links = stages.links(variant, Stage.OUTPUT_CODE, Stage.SASS)
    other_reader = Reader(
        replace(reader.recording, kernels=(replace(kernel, variants=(other,)),)),
        user_derived_cache(),
    )
    assert other_reader.stages.links(other, Stage.OUTPUT_CODE, Stage.SASS) == links != {}
