"""What may not leave a company does not, in any form: every piece of what is written is unpacked
and looked through."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers.exported import unpacked
from tests.helpers.ptxview import (
    SAMPLE,
    call,
    environment,
    printed,
    ptxview,
    saved,
    tool,
    variants_of,
    write_events,
)
from tests.probes.conftest import caches, parents, warm_python

__all__ = ["caches", "parents", "warm_python"]  # fixtures
ROOT = Path(__file__).resolve().parents[2]
NAMES = ("out.html", "out.md", "out.ptxview")
SCRIPT = '''
"""The docstring of a module that nobody else may read."""
import torch, triton
import triton.language as tl

@triton.jit
def scale_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """How the scaling that gave us the lead is done."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # the trick that nobody knows
    confidential_weight = tl.load(x_ptr + at, mask=at < n) * 3.25
    tl.store(y_ptr + at, confidential_weight, mask=at < n)

x = torch.ones(1000, device="cuda")
scale_kernel[(8,)](x, torch.empty_like(x), 1000, BLOCK=128)
try:
    scale_kernel[(8,)](x, torch.empty(8, device="cuda"), 1000, BLOCK=128)
except RuntimeError:
    pass
'''


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, warm_python: Callable[..., Path]) -> Path:
    folder = tmp_path_factory.mktemp("run") / "home" / "alice.liddell" / "wonderland-project"
    saved(folder / "looking_glass.py", SCRIPT)
    out = folder.parent / "rec.ptxview"
    done = ptxview(
        *("run", "--no-tui", "--target", "sm_90", "-o", out, "--python", warm_python()),
        *(folder / "looking_glass.py", "--token=tweedledee"),
        cwd=folder,
        env=environment(TRITON_CACHE_DIR=str(folder / "cache")),
    )
    assert done.status == 0, done.said
    return out


def texts(recording: Path) -> Iterator[str]:
    """Every text of a source that a recording has: scripts, CUDA C++, output_code and graphs."""
    with zipfile.ZipFile(recording) as archive:
        for name in archive.namelist():
            if not name.endswith(".jsonl"):
                continue
            for event in map(json.loads, archive.read(name).splitlines()):
                kind = event["event"]
                names = [event.get("source_blob")] if kind == "device_code" else []
                if kind == "triton":
                    names = [event["source"].get("blob")]
                if kind in ("graph", "graph_text", "user_file"):
                    names = [event["blob"]]
                if kind == "extension":
                    names = list(event["files"].values())
                for digest in filter(None, names):
                    yield archive.read(f"blobs/{digest}").decode("utf-8", "replace")


def paths(recording: Path) -> set[str]:
    """Every absolute path of more than a folder that the events and the texts name."""
    out: set[str] = set()
    with zipfile.ZipFile(recording) as archive:
        for name in archive.namelist():
            text = archive.read(name).decode("latin-1")
            if not text.startswith("\x7fELF"):
                out.update(re.findall(r"(?<=[\"' ])/(?:home|tmp|opt|usr|ptxview)/[\w./-]+\w", text))
    return out


@pytest.mark.parametrize(
    "name",
    ["out.ptxview", *(pytest.param(name, marks=pytest.mark.nightly) for name in NAMES[:2])],
)
def test_no_line_of_the_source_and_no_path_is_left(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    lines = {line.strip() for text in texts(SAMPLE) for line in text.splitlines()}
    # A list of parameters alone is names, which stay: of kernels, parameters and values.
    lines = {n for n in lines if len(n) > 10 and not re.fullmatch(r"[\w, ]+", n)}
    known = paths(SAMPLE)
    assert len(lines) > 300 and len(known) > 20
    whole, without = tmp_path / f"whole-{name}", tmp_path / name
    words = ["matmul_kernel"] if name == "out.md" else []
    if name == "out.html":
        whole = request.getfixturevalue("lecture")
    else:
        assert call("export", SAMPLE, *words, "-o", whole).status == 0
    done = call("export", SAMPLE, *words, "-o", without, "--without", "source,paths", "--json")
    assert done.json["removed"] == ["source", "paths"]

    def left(path: Path, needles: set[str]) -> set[str]:
        # No needle has a zero byte in it: one search for each finds it in any piece.
        pieces = b"\0".join(set(unpacked(path)))
        own = [p.read_bytes() for p in (ROOT / "inspector/export/web").glob("*.js")]
        return {
            n for n in needles if n.encode() in pieces and not any(n.encode() in o for o in own)
        }

    assert left(whole, lines), "the test sees a source where there is one"
    assert left(without, lines) == set()
    assert left(without, known) == set()
    told = b"".join(unpacked(without)).lower()
    assert b"removed" in told or b"without source" in told
    if name != "out.md":
        assert left(whole, known)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_nothing_tells_who_ran_what_where(recorded: Path, name: str, tmp_path: Path) -> None:
    secret = ["alice", "liddell", "wonderland", "looking_glass", "tweedledee", str(recorded.parent)]
    secret += ["nobody else", "gave us the lead", "nobody knows"]
    out = tmp_path / name
    whole = tmp_path / f"whole-{name}"
    assert call("export", recorded, "-o", whole).status == 0
    assert any(b"nobody knows" in piece or b"looking_glass" in piece for piece in unpacked(whole))
    assert call("export", recorded, "-o", out, "--without=source,paths").status == 0
    for piece in unpacked(out):
        for word in secret:
            assert word.encode() not in piece.lower(), piece[:200]
    assert any(b"scale_kernel" in piece for piece in unpacked(out))


@pytest.mark.nightly
def test_without_its_paths_alone_every_link_is_still_there(recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.ptxview"
    assert call("export", recorded, "-o", out, "--without", "paths").status == 0
    for path in (recorded, out):
        assert call("list", path, "--json").json["recording"]["removed"] == (
            ["paths"] if path == out else []
        )
    for stage in ("source", "ttir", "ptx", "sass"):
        before, after = (
            call("show", p, "scale_kernel", "--stage", stage, "--json").json
            for p in (recorded, out)
        )
        assert [x["links"] for x in before["lines"]] == [x["links"] for x in after["lines"]]
        assert any(x["links"] for x in after["lines"])
        if stage == "source":
            assert [x["text"] for x in before["lines"]] == [x["text"] for x in after["lines"]]
        assert [f["card"] for f in before["functions"]] == [f["card"] for f in after["functions"]]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param((), marks=pytest.mark.nightly, id="all"),
        pytest.param(("matmul_kernel",), id="one"),
    ],
)
def test_the_machine_code_stays_what_it_is(tmp_path: Path, names: tuple[str, ...]) -> None:
    whole, out = tmp_path / "whole.ptxview", tmp_path / "out.ptxview"
    assert call("export", SAMPLE, *names, "-o", whole).status == 0
    assert call("export", SAMPLE, *names, "-o", out, "--without", "source,paths").status == 0
    cubins: dict[Path, set[str]] = {whole: set(), out: set()}
    for path, texts_of_cubins in cubins.items():
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                data = archive.read(name)
                if data.startswith(b"\x7fELF"):
                    file = saved(tmp_path / "x.cubin", data)
                    # The code, its encodings, and the tables of lines, which can be read as before,
                    # each with as many places.
                    text = printed(tool("nvdisasm"), "-c", "-gi", "-gp", "-hex", file).decode()
                    assert "/* 0x" in text
                    texts_of_cubins.add(re.sub(r'File "[^"]*"', 'File ""', text))
    assert cubins[whole] == cubins[out]
    assert sum('File ""' in text for text in cubins[out]) > (0 if names else 10)


def test_a_kernel_alone_brings_nothing_of_the_others(tmp_path: Path) -> None:
    out = tmp_path / "one.ptxview"
    assert call("export", SAMPLE, "softmax_kernel", "-o", out).status == 0
    listed = call("list", out, "--json").json
    assert [k["name"] for k in listed["kernels"]] == ["softmax_kernel"]
    with zipfile.ZipFile(out) as archive:
        for name in archive.namelist():
            rows = (
                archive.read(name).splitlines() if name.endswith(".jsonl") else [archive.read(name)]
            )
            for row in rows:
                # The command line named all that it ran.
                if not re.match(rb'{"event":"(recording|process)"', row):
                    assert b"matmul" not in row and b"gelu" not in row, row[:300]
    assert out.stat().st_size < SAMPLE.stat().st_size / 4
    whole = {v["id"]: v for _, v in variants_of(call("list", SAMPLE, "--json").json)}
    (variant,) = (v for _, v in variants_of(listed))
    assert variant["resources"] == whole[variant["id"]]["resources"]


def test_events_that_nobody_here_knows_are_not_handed_on(tmp_path: Path) -> None:
    folder = tmp_path / "rec"
    with zipfile.ZipFile(SAMPLE) as archive:
        archive.extractall(folder)
    odd = {"event": "tomorrow", "time": 1.0, "note": "the queen of hearts"}
    profile = {"event": "profile", "time": 1.0, "trace": "x", "host": "the queen of hearts"}
    with (folder / "events.jsonl").open("a") as file:
        file.writelines(json.dumps(e) + "\n" for e in (odd, profile))
    for what, there in ((None, True), ("paths", False), ("source", False)):
        out = tmp_path / f"{what}.ptxview"
        options = () if what is None else ("--without", what)
        assert call("export", folder, "softmax_kernel", "-o", out, *options).status == 0
        assert any(b"queen" in piece for piece in unpacked(out)) is there


def test_names_that_nvcc_makes_of_a_file_are_others(tmp_path: Path) -> None:
    folder = tmp_path / "rec"
    (folder / "blobs").mkdir(parents=True)
    local = "_ZN51_GLOBAL__N__8f2f_16_looking_glass_cu_0123abcd6kernelEPf"
    text = f".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry {local}()\n{{ ret; }}\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    (folder / "blobs" / digest).write_text(text)
    write_events(
        folder,
        {"event": "recording", "schema": 1, "time": 0.0, "command": ["x"]},
        {
            "event": "device_code",
            "object": "/home/alice.liddell/b/looking_glass.o",
            "ptx": digest,
            "source": "/home/alice.liddell/looking_glass.cu",
            "flags": ["-I/home/alice.liddell/inc"],
        },
        {"event": "ptxas", "hash": digest, "symbol": local, "spill_store_bytes": 8},
    )
    out = tmp_path / "out.ptxview"
    assert call("export", folder, "-o", out, "--without", "paths").status == 0
    for piece in unpacked(out):
        assert b"looking" not in piece and b"alice" not in piece
    ((kernel, variant),) = variants_of(call("list", out, "--json").json)
    assert len(kernel["name"]) == len(local) and kernel["name"] != local
    # The function keeps its annotations.
    assert variant["resources"]["spill_store_bytes"] == 8


@pytest.mark.parametrize("what", ["paths", "source", "args"])
def test_a_shared_copy_keeps_the_times_of_launches(what: str, tmp_path: Path) -> None:
    loop = ROOT / "tests" / "data" / "gpu_times" / "loop.ptxview"
    copy = tmp_path / "copy.ptxview"
    done = call("export", loop, "--format", "ptxview", "--without", what, "-o", copy)
    assert done.status == 0, done.said
    whole, shared = (call("list", p, "--by", "cost", "--json").json for p in (loop, copy))
    assert shared["window"] == whole["window"] is not None
    figures = ("launches", "us", "source", "total_us", "share_percent")
    assert [[row[name] for name in figures] for row in shared["costs"]] == [
        [row[name] for name in figures] for row in whole["costs"]
    ]
