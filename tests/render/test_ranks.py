"""What ranks compiled differently, and the recordings of several machines as one."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from inspector.base.model import Stage
from inspector.recording.layout import Writer, pack
from inspector.render.ranks import differences, ranks
from inspector.sources.opening import open_path, open_paths
from tests.helpers.ptxview import SQUARE, call

PTX = (SQUARE / "square_kernel.ptx").read_bytes()


class Program:
    """Writes the recording of one machine, in which ``ranks`` compile."""

    def __init__(self, folder: Path, **more: object) -> None:
        self.folder = folder
        self._writer = Writer(folder)
        begun = {"schema": 1, "command": ["torchrun"], "mode": "target", "target": "sm_90"}
        self._writer.event(event="recording", time=1.0, **{**begun, **more})
        self._moment = 1.0

    def _event(self, pid: int, **fields: object) -> None:
        self._moment += 1
        self._writer.event(**fields, pid=pid, time=self._moment)

    def process(self, pid: int, rank: int | None) -> None:
        """A process has begun."""
        self._event(pid, event="process", schema=1, rank=rank, python="3.11.0")

    def kernel(
        self, pid: int, name: str, digest: str, hit: bool = False, end: bytes = b"", **config: int
    ) -> None:
        """It asked Triton for a kernel."""
        ptx = PTX.replace(b"square_kernel", name.encode() + digest.encode()) + end
        self._event(
            pid,
            event="triton",
            name=name,
            hash=digest * 16,
            files={"ptx": self._writer.blob(ptx)},
            cache_hit=hit,
            seconds=0.1,
            metadata={"name": name + digest, **config},
        )

    def refused(self, pid: int, name: str, digest: str) -> None:
        """It asked Triton for a kernel, in vain."""
        self._event(
            pid,
            event="triton_failed",
            name=name,
            hash=digest * 16,
            stage="sass",
            tool="triton",
            message="ptxas was not there",
            began=1.0,
            seconds=2.0,
        )

    def function(
        self, pid: int, frame: int, number: int = 0, name: str = "step", cache: str = "hit"
    ) -> None:
        """It compiled a function."""
        own = {"frame_id": frame, "frame_compile_id": number}
        if number:
            said = ["0/0: tensor 'x' size mismatch"]
            self._event(
                pid, event="recompile", **own, blob=self._writer.blob(json.dumps(said).encode())
            )
        stack = [{"file": "/home/me/model.py", "line": 3, "name": name, "code": ""}]
        self._event(pid, event="compile_start", **own, stack=stack)
        self._event(pid, event="compile_cache", **own, name=f"fx_graph_cache_{cache}", said={})
        figures = {"co_name": name, "co_filename": "/home/me/model.py", "co_firstlineno": 3}
        self._event(pid, event="compile_end", **own, figures=figures)

    def end(self, status: int = 0) -> Path:
        """The run has ended."""
        self._moment += 1
        self._writer.event(
            event="end", exit_status=status, seconds=1.5, time=self._moment, finishing=True
        )
        self._writer.event(event="finished", time=self._moment + 1)
        self._writer.close()
        return self.folder


def alike(folder: Path, numbers: Iterable[int]) -> Program:
    """Ranks that do the same, started by another process."""
    program = Program(folder)
    program.process(9, None)
    for n in numbers:
        program.process(10 + n, n)
        program.kernel(10 + n, "copy", "aaaa", num_warps=4)
        program.function(10 + n, 0)
    return program


def told(path: Path) -> dict[str, str]:
    """What they compiled differently, by kind."""
    return {one.kind: one.text for one in differences(open_path(path))}


def test_ranks_that_do_the_same_differ_in_nothing(tmp_path: Path) -> None:
    path = alike(tmp_path / "rec", range(3)).end()
    recording = open_path(path)
    assert [rank.name for rank in ranks(recording)] == ["rank 0", "rank 1", "rank 2"]
    assert differences(recording) == ()
    assert "3 ranks: nothing was compiled differently" in call("list", path).text
    alone = alike(tmp_path / "alone", [0]).end()
    assert ranks(open_path(alone)) == () and "compiled differently" not in call("list", alone).text


def test_of_compiles_at_once_the_one_that_stayed_in_the_cache_is_shown(tmp_path: Path) -> None:
    program = alike(tmp_path / "rec", range(2))
    for pid, end, hit in ((10, b"// 1", False), (11, b"// 2", False), (9, b"// 2", True)):
        program.kernel(pid, "scale", "bbbb", hit, end)
    recording = open_path(program.end())
    (variant,) = next(k for k in recording.kernels if k.name == "scale").variants
    assert variant.stages[Stage.PTX].content.read().endswith(b"// 2")


def test_other_variants_are_named_by_their_settings(tmp_path: Path) -> None:
    program = alike(tmp_path / "rec", range(4))
    for n in range(4):
        odd = n == 2
        program.kernel(10 + n, "scale", "cccc" if odd else "bbbb", num_warps=8 if odd else 4)
    path = program.end()
    ((kind, text),) = told(path).items()
    assert kind == "variant"
    assert text == "scale: ranks 0 and 1 and 3 compiled w4 bbbb, rank 2 compiled w8 cccc"
    value = call("list", path, "--json").json["ranks"]
    assert [one["name"] for one in value["ranks"]] == [f"rank {n}" for n in range(4)]
    (one,) = value["differences"]
    assert one["kernel"] == "scale" and len(one["by_rank"]["rank 2"]) == 1
    assert one["by_rank"]["rank 2"] != one["by_rank"]["rank 0"] == one["by_rank"]["rank 3"]


def test_missing_kernels_recompiles_and_misses_are_listed(tmp_path: Path) -> None:
    program = alike(tmp_path / "rec", range(3))
    program.kernel(10, "first_alone", "dddd")
    program.function(11, 0, 1)
    program.function(11, 0, 2)
    program.function(12, 5, name="last_alone", cache="miss")
    path = program.end()
    by_kind = told(path)
    assert by_kind == {
        "kernel": "first_alone: rank 0 compiled it, ranks 1 and 2 did not",
        "compiles": "step  model.py:3: rank 1 compiled it 3 times, ranks 0 and 2 compiled it once "
        "(tensor 'x' size mismatch)",
        "function": "last_alone  model.py:3: rank 2 compiled it once, ranks 0 and 1 did not",
    }
    listed = call("list", path).text
    assert "3 ranks: 3 differences" in listed
    assert all(f"≠ {text}" in listed for text in by_kind.values())
    assert "≠ first_alone" in call("list", path, "--compiles").text


@pytest.mark.parametrize("packed", [False, True])
def test_machines_are_read_as_one(tmp_path: Path, packed: bool) -> None:
    """Each on its own disk, with numbers of processes that the other has, too."""
    paths = []
    for n, node in enumerate(("node0", "node1")):
        program = alike(tmp_path / node / "rec.ptxview", [2 * n, 2 * n + 1])
        program.process(7, None)
        # The same process number on both machines, of different ranks.
        program.process(50, 2 * n)
        program.kernel(50, f"of_{node}", f"{n}{n}ff", num_warps=4)
        path = program.end(status=3 * n)
        if packed:
            pack(path, path.with_suffix(".file.ptxview"))
            path = path.with_suffix(".file.ptxview")
        paths.append(path)
    recording = open_paths(paths)
    machines = recording.machines
    assert ["node0" in machines[0], "node1" in machines[1], len(machines)] == [True, True, 2]
    assert [r.name for r in ranks(recording)] == [
        f"rank {n} of {machines[n // 2]}" for n in range(4)
    ]
    assert recording.complete and recording.exit_status == 3 and recording.problems == ()
    by_kernel = {one.kernel: one for one in differences(recording)}
    assert set(by_kernel) == {"of_node0", "of_node1"}
    did = {name for name, ids in by_kernel["of_node1"].by_rank.items() if ids}
    assert did == {f"rank 2 of {machines[1]}"}
    for kernel, variant in recording.variants():  # each from its own disk
        symbol = f"{kernel.name}{variant.hash[:4]}"
        assert symbol.encode() in variant.stages[Stage.PTX].content.read()
    for words in (["list"], ["open", "--no-tui"]):
        done = call(*words, *paths)
        assert done.status == 0 and "4 ranks: 2 differences" in done.text, done.said
    value = call("list", "--json", *paths).json
    assert {one["machine"] for one in value["ranks"]["ranks"]} == set(machines)
    assert len(value["kernels"]) == 3
