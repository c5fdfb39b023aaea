"""What must not be in a recording is not in it, nor in what is handed on: each byte is seen."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest

from inspector.sources.running import ENVIRONMENT
from tests.helpers.exported import unpacked
from tests.helpers.ptxview import call, environment, ptxview

SECRETS = ["tweedledum", "jabberwock", "bandersnatch", "mockturtle", "gryphon", "cheshire"]
GIVEN = {
    "AWS_SECRET_ACCESS_KEY": "tweedledum",
    "HF_TOKEN": "jabberwock",
    "WANDB_API_KEY": "gryphon",
    "TORCHINDUCTOR_REDIS_PASSWORD": "bandersnatch",
    "TRITON_CACHE_DIR": "/tmp/plain-cache",
    "TORCH_CUDA_ARCH_LIST": "9.0",
}
WORDS = ["--api_key=mockturtle", "--db-password", "cheshire"]
WORDS += ["--lr", "1e-3", "--token", "--verbose"]
KEPT = ["--api_key=…", "--db-password", "…", "--lr", "1e-3", "--token", "--verbose"]
PROGRAM = """
import os, subprocess, sys
assert sys.argv[1] == "--api_key=mockturtle" and os.environ["HF_TOKEN"] == "jabberwock"
if "--child" not in sys.argv:
    subprocess.run([sys.executable, __file__, *sys.argv[1:], "--child"], check=True)
"""
PTX = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry kept_kernel()\n{\nret;\n}\n"
EMITS = f"""
import ptxview_probes.writer as w
w.emit({{"event": "uncaptured", "by": "NVRTC", "name": "kept_kernel", "ptx": w.blob({PTX!r})}})
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "train.py").write_text(EMITS + PROGRAM)
    out = folder / "rec.ptxview"
    options = ("--no-tui", "--target", "sm_90", "-o", str(out), "--python", sys.executable)
    words = ("run", *options, str(folder / "train.py"), *WORDS)
    done = ptxview(*words, cwd=folder, env=environment(**GIVEN))
    assert done.status == 0, done.said
    return out


def test_no_byte_of_a_recording_has_a_secret_of_the_environment_or_the_command(
    recorded: Path,
) -> None:
    for piece in unpacked(recorded):
        for secret in SECRETS:
            assert secret.encode() not in piece, piece[:300]
    with zipfile.ZipFile(recorded) as archive:
        rows = [
            json.loads(line)
            for name in archive.namelist()
            if name.endswith(".jsonl")
            for line in archive.read(name).splitlines()
        ]
    processes = [r["argv"] for r in rows if r["event"] == "process"]
    assert [argv[-len(WORDS) :] for argv in processes if "--child" not in argv] == [KEPT]
    assert [argv[-len(WORDS) - 1 : -1] for argv in processes if "--child" in argv] == [KEPT]


def test_what_shapes_compiling_is_recorded_by_a_list_of_names(recorded: Path) -> None:
    listed = call("list", recorded, "--json").json["recording"]
    for name in ("TRITON_CACHE_DIR", "TORCH_CUDA_ARCH_LIST"):
        assert listed["environment"][name] == GIVEN[name]
    assert set(listed["environment"]) <= set(ENVIRONMENT)
    assert listed["command"][-len(WORDS) :] == KEPT
    assert not [n for n in ENVIRONMENT if any(s in n.lower() for s in ("token", "key", "passw"))]
