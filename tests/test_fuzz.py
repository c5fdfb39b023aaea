"""The fuzzer finds what is wrong, and a short run of it over every reader finds nothing."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.mutate import Mutator

ROOT = Path(__file__).resolve().parent.parent

FAULTY = '''
import os
import socket
import subprocess
from pathlib import Path
from inspector.base.errors import Unreadable

def magic(data, folder):
    """Bytes one after another, that no chance finds at once."""
    if data[:1] == b"{":
        if data[1:2] == b"[":
            if data[2:3] == b"<":
                raise KeyError("deep")

def refuses(data, folder):
    raise Unreadable("no")

def quadratic(data, folder):
    lines = data.split(b"\\n")
    return sum(1 for a in lines for b in lines if a == b)

def linear(data, folder):
    return [line for line in data.split(b"\\n") if line]

def heavy(data, folder):
    return sum(1 for _ in range(100_000)) if len(data) > 2 else 0

def writes(data, folder):
    (folder / "inside").write_bytes(data)
    Path(os.environ["OUTSIDE"], "made").write_bytes(data)

def removes(data, folder):
    Path(os.environ["OUTSIDE"], "kept").unlink(missing_ok=True)

def starts(data, folder):
    subprocess.run(["true"])

def connects(data, folder):
    with socket.socket() as one:
        one.connect_ex(("127.0.0.1", 9))

def behaves(data, folder):
    (folder / "inside").mkdir()
    (folder / "inside" / "file").write_bytes(data)
'''
PROGRAM = """
import json, sys
from pathlib import Path
from tests.fuzz import guided, instrument
folder = Path(sys.argv[1])
guided.prepare(folder)
from tests.fuzz.readers import Reader
space = {}
exec(instrument.instrumented(Path(sys.argv[2]).read_text(), sys.argv[2]), space)
told = {}
for name in sys.argv[3:]:
    seeds = [b"Q", b"some\\nlines\\nof\\ntext\\n" * 9]
    reader = Reader(name, space[name], lambda: seeds, work=20, least=500)
    one = guided.Fuzzing(reader, folder, seed=0)
    one.run(15_000 if name == "magic" else 40)
    told[name] = {where: found.what for where, found in one.findings.items()}
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What the fuzzer says of readers whose faults are known, in a process that it may watch."""
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "inside").mkdir()
    (folder / "kept").write_text("x")
    (folder / "faulty.py").write_text(FAULTY)
    names = re.findall(r"^def (\w+)", FAULTY, re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder / "inside", folder / "faulty.py", *names],
        cwd=ROOT,
        env={**os.environ, "OUTSIDE": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, dict[str, str]] = json.loads(done.stdout)
    return told


@pytest.mark.nightly
def test_what_hides_behind_several_branches_is_reached(found: dict[str, dict[str, str]]) -> None:
    assert list(found["magic"].values()) == ["KeyError: 'deep'"]


@pytest.mark.nightly
def test_a_sentence_is_no_finding(found: dict[str, dict[str, str]]) -> None:
    assert found["refuses"] == found["linear"] == found["behaves"] == {}


def test_work_out_of_proportion_is_found(found: dict[str, dict[str, str]]) -> None:
    assert {"grows"} <= set(found["quadratic"]) <= {"grows", "work"}
    assert set(found["heavy"]) == {"work"}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("writes", "open /.*/made"),
        ("removes", "os.remove /.*/kept"),
        ("starts", "subprocess"),
        ("connects", "socket.connect"),
    ],
)
def test_what_a_reader_must_not_do_is_found(
    found: dict[str, dict[str, str]], name: str, what: str
) -> None:
    assert any(re.match(what, said) for said in found[name].values()), found[name]


@pytest.fixture(scope="module")
def short() -> subprocess.CompletedProcess[str]:
    """The command over all readers: what they begin with, and a little more of each."""
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--inputs", "4000", "--seed", "20", "--json"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
    )


@pytest.mark.nightly
def test_no_reader_is_led_astray(short: subprocess.CompletedProcess[str]) -> None:
    assert short.returncode == 0, short.stderr


@pytest.mark.nightly
def test_every_reader_had_its_turn(short: subprocess.CompletedProcess[str]) -> None:
    told = json.loads(short.stdout)
    assert told["inputs"] > 3500
    for name, said in told["readers"].items():
        assert said["inputs"] >= 15, name
        # What a regular expression of Pygments reaches is not ours to count.
        assert said["reached"] > 10 or name == "highlight", name


def test_structured_changes_leave_json_json() -> None:
    mutator = Mutator(random.Random(7), (b"name", b"hash"), 4096)
    data = b'plain\n{"event": "triton", "files": {"ptx": ["a", 1, null]}}'
    made = {mutator.structured(data) for _ in range(300)}
    assert len(made) > 100
    for each in made:
        first, last = each.split(b"\n", 1)
        assert first == b"plain"
        json.loads(last)
