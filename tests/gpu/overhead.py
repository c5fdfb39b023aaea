"""Measure what recording adds to a training step, so that noise of the machine cannot hide it.

    python -m tests.gpu.overhead [--steps 2000] [--every 50] [--seconds 120] [--json FILE]

Run by hand on a machine with a GPU. Processes differ from each other by more than recording costs,
so one recorded process trains a compiled GPT-2 in a step that is bound by the CPU, and puts its
probes into another state (``STATES``) every few steps. A round has one block of steps in each
state, in random order. Each block is compared with the round's block in which everything is off:
the result is the median of these ratios over all rounds, with a 95 % interval by bootstrap. A
second block with everything off is the control: its interval must have 1. With everything off
launchers are the program's own and no call of the driver has a callback; CUPTI stays loaded.

A block's CPU time of the process has all threads, also CUPTI's and the library's own, and what they
write of the block; the table of threads says whose it is. The time of the main thread and the wall
time end with the block's last launch and with its last kernel. ``--dry`` needs no GPU: launches are
stubs, and nothing is at the driver.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

from inspector.recording.driver_records import read_records
from inspector.system import toolchain
from tests.benchmarks.overhead import recording

ROOT = Path(__file__).parents[2]
LIBRARY = "inspector/probes/driver"
SETTLING_STEPS = 4
"""Steps after a change of state that are not measured."""
COUNTED_STEPS = 20
"""Steps whose launches are counted."""
WARM_STEPS = 100
RESAMPLES = 4000
TOKENS = 128
DRY_LAUNCHES = 250
Step = Callable[[], object]


@dataclass(frozen=True)
class State:
    """What is on: hooks in Python ("on", "passing" or "removed"), callbacks of the driver (0: none,
    1: those outside a window, 2: those in a window) and CUPTI's activity records."""

    name: str
    hooks: str
    callbacks: int
    activity: int


OFF = State("everything off", "removed", 0, 0)
STATES = (
    OFF,
    State("everything off, again (control)", "removed", 0, 0),
    State("Python hooks, passing calls through", "passing", 0, 0),
    State("Python hooks", "on", 0, 0),
    State("driver callbacks", "removed", 2, 0),
    State("activity records", "removed", 0, 1),
    State("all, outside a window", "on", 1, 0),
    State("all, in a window", "on", 2, 1),
)
GOALS = {"all, in a window": 1.05, "all, outside a window": 1.01}
FIGURES = {
    "process": "CPU of the process",
    "main": "CPU of the main thread",
    "wall": "wall time",
}


@dataclass
class Blocks:
    """Milliseconds a step of each block in one state, by round."""

    process: list[float] = field(default_factory=list)
    main: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    """Part of the wall time in which all was launched and the GPU was not done."""
    switching: list[float] = field(default_factory=list)
    """Milliseconds of changing into the state."""
    threads: list[dict[str, float]] = field(default_factory=list)
    """CPU of threads by their names, milliseconds a step."""


# -- the recorded process -------------------------------------------------------------------------


@dataclass(frozen=True)
class Launcher:
    """A launcher that is counted, and the dictionary from which the program takes it."""

    holder: dict[str, Any]
    key: str
    counted: Any
    original: Any


class Probes:
    """The probes of this process, which are put into one state after another."""

    def __init__(self) -> None:
        self.hooks: Any = sys.modules.get("ptxview_probes.hooks")
        if self.hooks is None:
            raise SystemExit("this process is not recorded: start it without --inside")
        from ptxview_probes.calls import call_counts, triton_launches
        from ptxview_probes.driver import subscriber

        self.call_counts = call_counts
        self.launches = triton_launches
        self.subscriber = subscriber
        self.without_library = False
        self.launchers: list[Launcher] = []

    @property
    def library(self) -> Any:
        """The library at the driver, which is loaded with torch; None without one."""
        if self.without_library:
            return None
        library = self.subscriber._state["library"]
        if library is not None and not hasattr(library, "ptxview_driver_force"):
            raise SystemExit(f"the library in {LIBRARY} is older than its source: build it again")
        return library

    def find_launchers(self) -> None:
        """Find every dictionary from which a program takes a launcher that we count."""
        kinds = (self.launches.LaunchProxy, FunctionType)
        objects = [found for found in gc.get_objects() if type(found) in kinds]
        proxies = {id(found): found for found in objects if "_ptxview" in dir(found)}
        for holder in gc.get_referrers(*proxies.values()):
            for key in ("runner", "run", "_run"):
                if type(holder) is dict and id(holder.get(key)) in proxies:
                    counted = holder[key]
                    function: Any = counted if type(counted) is FunctionType else counted.func
                    self.launchers.append(Launcher(holder, key, counted, function.__wrapped__))

    def enter(self, state: State) -> float:
        """Enter a state; the milliseconds that this took."""
        began = time.perf_counter()
        self.hooks._state["recording"] = state.hooks == "on"
        for launcher in self.launchers:
            removed = state.hooks == "removed"
            launcher.holder[launcher.key] = launcher.original if removed else launcher.counted
        if self.library is not None:
            self.library.ptxview_driver_force(state.callbacks, state.activity)
        return (time.perf_counter() - began) * 1e3

    def tell(self) -> None:
        """Have written what was seen until now, as the library's thread would."""
        if self.library is not None:
            self.library.ptxview_driver_tell()

    def python_launches(self) -> int:
        """Launches that the hooks have counted."""
        kernels = [t for t in self.call_counts._targets.values() if t.kind == "triton"]
        return sum(t.others.count + sum(c.count for c in t.calls.values()) for t in kernels)

    def driver_launches(self) -> int:
        """Launches that the driver's callbacks have counted."""
        self.tell()
        counts: dict[str, list[int]] = {}
        for file in Path(os.environ["PTXVIEW_RECORDING"]).glob(f"driver-{os.getpid()}-*.records"):
            for _, event in read_records(file, lambda _: None, {}):
                counts |= event.get("counts", {})  # type: ignore[call-overload]
        return sum(row[0] + row[1] for row in counts.values())


def own_gpt2(torch: Any, layers: int, width: int, vocabulary: int) -> Any:
    """A model of GPT-2's operations, for where transformers is absent."""

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
            self.qkv = torch.nn.Linear(width, 3 * width)
            self.out = torch.nn.Linear(width, width)
            self.up = torch.nn.Linear(width, 4 * width)
            self.down = torch.nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            rows, length = x.shape[:2]
            heads = self.qkv(self.norms[0](x)).view(rows, length, 3, width // 64, 64)
            q, k, v = heads.permute(2, 0, 3, 1, 4)
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
            up = torch.nn.functional.gelu(self.up(self.norms[1](x)), approximate="tanh")
            return x + self.down(up)

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(vocabulary, width)
            self.blocks = torch.nn.Sequential(*(Block() for _ in range(layers)))
            self.norm = torch.nn.LayerNorm(width)

        def forward(self, ids: Any) -> Any:
            logits = self.norm(self.blocks(self.words(ids))) @ self.words.weight.T
            shifted = logits[:, :-1].reshape(-1, vocabulary).float()
            return torch.nn.functional.cross_entropy(shifted, ids[:, 1:].reshape(-1))

    return Model()


def gpt2(torch: Any, layers: int) -> tuple[str, Callable[[Any], Any], Any]:
    """What the model is, its loss as a function of tokens, and the model."""
    try:
        from transformers import GPT2Config, GPT2LMHeadModel  # type: ignore[import-not-found]
    except ImportError:
        own = own_gpt2(torch, layers, 768, 50257)
        return "GPT-2's operations, without transformers", own, own
    config = GPT2Config(n_layer=layers, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False)
    model = GPT2LMHeadModel(config)
    return "GPT-2 of transformers", lambda ids: model(ids, labels=ids).loss, model


def training_step(layers: int) -> tuple[str, Step, Step]:
    """What is trained, one step, and a wait for the GPU."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    name, loss_of, model = gpt2(torch, layers)
    model.to("cuda", torch.bfloat16).train()
    compiled = torch.compile(loss_of)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    ids = torch.randint(0, 50257, (1, TOKENS), device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        compiled(ids).backward()
        optimizer.step()

    return (
        f"{name}: {layers} layers of 768, compiled, {TOKENS} tokens",
        step,
        torch.cuda.synchronize,
    )


def dry_step(probes: Probes) -> tuple[str, Step, Step]:
    """Stubs of launchers, counted as Inductor's are."""

    def target(number: int) -> Callable[[], Any]:
        name = f"stub {number}"
        return lambda: probes.call_counts.call_target("triton", name, name, {"hash": name})

    parameters = [("x", "*fp32", None), ("n", "i32", None)]
    spaces: list[dict[str, Any]] = []
    for number in range(DRY_LAUNCHES):
        counter = probes.launches.LaunchCounter(
            target(number), probes.launches.STATIC_LEADING, parameters
        )
        spaces.append({"runner": probes.launches.counted_function(lambda *args: None, counter)})

    def step() -> None:
        sum(range(100_000))  # what a step does besides
        for space in spaces:
            space["runner"](8, 1, 1, 0, 1 << 20, 1000)

    return f"{DRY_LAUNCHES} stubs of launchers", step, lambda: None


def thread_times() -> dict[str, float]:
    """CPU milliseconds of the threads that live, by name: of one name their sum."""
    times: dict[str, float] = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            nanoseconds = int((task / "schedstat").read_text().split()[0])
            name = (task / "comm").read_text().strip()
        except OSError:  # it ended, or the kernel keeps no such statistics
            continue
        name = "main" if task.name == str(os.getpid()) else name
        times[name] = times.get(name, 0) + nanoseconds / 1e6
    return times


def measure_block(probes: Probes, step: Step, wait: Step, steps: int, blocks: Blocks) -> None:
    """Run a block of steps and add its times."""
    for _ in range(SETTLING_STEPS):
        step()
    wait()
    threads = thread_times()
    process, main, wall = time.process_time(), time.thread_time(), time.perf_counter()
    for _ in range(steps):
        step()
    launched = time.perf_counter()
    main = time.thread_time() - main
    wait()
    ended = time.perf_counter()
    probes.tell()
    process = time.process_time() - process
    blocks.threads.append(
        {name: (ms - threads.get(name, 0)) / steps for name, ms in thread_times().items()}
    )
    blocks.process.append(process * 1e3 / steps)
    blocks.main.append(main * 1e3 / steps)
    blocks.wall.append((ended - wall) * 1e3 / steps)
    blocks.waited.append((ended - launched) / (ended - wall))


def count_launches(probes: Probes, step: Step, wait: Step) -> dict[str, float | None]:
    """Launches a step, by the hooks and by the driver; None where nothing is at the driver."""
    python = probes.python_launches()
    driver = probes.driver_launches()
    for _ in range(COUNTED_STEPS):
        step()
    wait()
    driver_counts = (probes.driver_launches() - driver) / COUNTED_STEPS
    return {
        "python": (probes.python_launches() - python) / COUNTED_STEPS,
        "driver": None if probes.library is None else driver_counts,
    }


def versions() -> dict[str, str]:
    """Versions of what the step runs on, and the device."""
    found = {"python": sys.version.split()[0]}
    for name in ("torch", "triton", "transformers"):
        if name in sys.modules:
            found[name] = str(getattr(sys.modules[name], "__version__", None))
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        found["device"] = sys.modules["torch"].cuda.get_device_name()
    return found


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Measure all states in this process."""
    probes = Probes()
    what, step, wait = dry_step(probes) if asked.dry else training_step(asked.layers)
    for _ in range(WARM_STEPS):
        step()
    wait()
    states: tuple[State, ...] = STATES
    if probes.library is None or not probes.library.ptxview_driver_force(2, 1):
        if not asked.dry:
            raise SystemExit("no library is at the driver: CUPTI is absent or somebody else's")
        probes.without_library = True
        states = tuple(state for state in STATES if not state.callbacks and not state.activity)
    launches = count_launches(probes, step, wait)
    probes.find_launchers()
    gc.collect()
    gc.freeze()
    blocks = {state.name: Blocks() for state in states}
    order = random.Random(0)
    deadline = time.monotonic() + asked.seconds
    for number in range(max(1, asked.steps // asked.every)):
        if number and time.monotonic() > deadline:
            break
        for state in order.sample(states, len(states)):
            blocks[state.name].switching.append(probes.enter(state))
            measure_block(probes, step, wait, asked.every, blocks[state.name])
    probes.enter(STATES[-1])
    return {
        "what": what,
        "versions": versions(),
        "launches": launches,
        "launchers": len(probes.launchers),
        "every": asked.every,
        "rounds": len(blocks[OFF.name].wall),
        "states": [asdict(state) for state in states],
        "blocks": {name: asdict(measured) for name, measured in blocks.items()},
    }


# -- results --------------------------------------------------------------------------------------


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median and its 95 % interval by bootstrap."""
    chance = random.Random(0)
    medians = sorted(
        statistics.median(chance.choices(values, k=len(values))) for _ in range(RESAMPLES)
    )
    return statistics.median(values), medians[RESAMPLES // 40], medians[-1 - RESAMPLES // 40]


def summarise(measured: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By state and figure: the median in ms, and the ratio to everything off with its interval."""
    off = measured["blocks"][OFF.name]
    summary: dict[str, dict[str, Any]] = {}
    for name, blocks in measured["blocks"].items():
        summary[name] = {"switching_ms": statistics.median(blocks["switching"])}
        for figure in FIGURES:
            pairs = zip(blocks[figure], off[figure], strict=True)
            median, low, high = interval([value / base for value, base in pairs])
            milliseconds = statistics.median(blocks[figure])
            row = {"ms": milliseconds, "ratio": median, "low": low, "high": high}
            summary[name][figure] = row
    return summary


def markdown(measured: dict[str, Any], summary: dict[str, dict[str, Any]]) -> str:
    """The table of docs/explanation/accuracy.md."""
    heads = "".join(f" {title}, ms a step | ratio (95 %) |" for title in FIGURES.values())
    lines = [f"| state |{heads}", "|---|" + "---:|" * 2 * len(FIGURES)]
    for name, row in summary.items():
        cells = [name]
        for figure in FIGURES:
            f = row[figure]
            cells.append(f"{f['ms']:.3f}")
            ratio = f"{f['ratio']:.3f} ({f['low']:.3f} … {f['high']:.3f})"
            cells.append("1" if name == OFF.name else ratio)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def threads_markdown(measured: dict[str, Any]) -> str:
    """Which thread has the CPU time: mean ms a step in each state, threads with 1 % or more."""
    means: dict[str, dict[str, float]] = {}
    for state, blocks in measured["blocks"].items():
        threads = {name for block in blocks["threads"] for name in block}
        means[state] = {
            name: statistics.fmean(block.get(name, 0) for block in blocks["threads"])
            for name in threads
        }
    total = max(sum(row.values()) for row in means.values())
    names = sorted({n for row in means.values() for n, ms in row.items() if ms > total / 100})
    lines = [f"| CPU, ms a step | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    for state, row in means.items():
        lines.append(f"| {state} | {' | '.join(f'{row.get(n, 0):.3f}' for n in names)} |")
    return "\n".join(lines)


def remarks(measured: dict[str, Any], summary: dict[str, dict[str, Any]]) -> list[str]:
    """What the table is of, and what must be known to read it."""
    launches, rounds = measured["launches"], measured["rounds"]
    waited = statistics.median(measured["blocks"][OFF.name]["waited"])
    driver = "–" if launches["driver"] is None else f"{launches['driver']:.0f}"
    lines = [
        f"{measured['what']}; " + ", ".join(f"{k} {v}" for k, v in measured["versions"].items()),
        f"launches a step: {driver} at the driver, {launches['python']:.0f} counted by hooks of "
        f"{measured['launchers']} launchers; {rounds} rounds of {measured['every']} steps a state",
        f"after the last launch of a block: {waited:.1%} of its wall time until the GPU is done",
    ]
    if waited > 0.05:
        lines.append("the step is bound by the GPU: its wall time hides what the CPU does besides")
    if not measured["launchers"]:
        lines.append("no counted launcher was found: hooks were not removed where they should be")
    for name, goal in GOALS.items():
        if name in summary:
            ratio = summary[name]["process"]["ratio"]
            met = "met" if ratio <= goal else "missed"
            lines.append(f"{name}: {ratio:.3f} of the CPU time; goal {goal}: {met}")
            lines.append(f"{name}: entered in {summary[name]['switching_ms']:.2f} ms")
    return lines


def run_recorded(asked: argparse.Namespace, argv: Sequence[str]) -> int:
    """Run this program again, recorded; its exit status."""
    if not asked.dry and not toolchain.gpu_present():
        raise SystemExit("there is no GPU here; --dry needs none")
    if not asked.dry and toolchain.driver_library() is None:
        raise SystemExit(
            "the driver's library is not built: gcc -O2 -shared -fPIC -fvisibility=hidden "
            f"-pthread {LIBRARY}/*.c -o {LIBRARY}/ptxview_driver.so -ldl -Wl,-z,nodelete"
        )
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.gpu.overhead", "--inside", *argv]
        return subprocess.run(command, env=recording(Path(folder) / "r"), cwd=ROOT).returncode


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.overhead", description=__doc__)
    parser.add_argument("--steps", type=int, default=2000, help="steps in each state (2000)")
    parser.add_argument("--every", type=int, default=50, help="steps of a block (50)")
    parser.add_argument("--seconds", type=float, default=120, help="of measuring, at most (120)")
    parser.add_argument("--layers", type=int, default=8, help="of the GPT-2 (8)")
    parser.add_argument("--json", type=Path, help="write every block's times to this file")
    parser.add_argument("--dry", action="store_true", help="stubs of launchers, without a GPU")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if not asked.inside:
        words = [str(asked.json.absolute()) if w == str(asked.json) else w for w in sys.argv[1:]]
        raise SystemExit(run_recorded(asked, words))
    measured = measure(asked)
    summary = summarise(measured)
    if asked.json is not None:
        asked.json.write_text(json.dumps({**measured, "summary": summary}, indent=1) + "\n")
    tables = [markdown(measured, summary), "", threads_markdown(measured), ""]
    print("\n".join([*tables, *remarks(measured, summary)]))


if __name__ == "__main__":
    main()
