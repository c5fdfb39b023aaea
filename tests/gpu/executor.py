"""What PTX gives when it is run here, bit for bit beside a GPU; how far approximate results are.

    python -m tests.gpu.executor [--programs 10000] [--only programs] [--keep FOLDER]

Run by hand on a machine with a GPU, from the repository's root; some minutes on 16 cores. Every
instruction of :mod:`tests.execute.random_ptx` on 65,536 sets of operands, and so many random
programs of :mod:`tests.execute.random_programs`, are run by ``inspector.execute`` and by the
device; all that they leave in memory must be equal. Approximate instructions are held against the
exact values on four million operands each, and must be within the bounds of
``reference/approximate.toml``. Exits with 1 where something is not as it should be. With ``--keep``
the digests of what the device left are written, which tests without a GPU hold on to.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.execute import random_programs, random_ptx
from tests.gpu.driver import Driver, assembled

Array = np.ndarray[Any, Any]
PIECE = 100
SETS = 65_536
"""Sets of operands of each instruction."""
KEPT_SETS, KEPT_PROGRAMS = 4096, 1000
OPERANDS = 1 << 22
INSTRUCTIONS = random_ptx.instructions()


def digest(*parts: bytes) -> str:
    """A name of bytes, long enough that no two are likely to share it."""
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def of_programs(seeds: range) -> tuple[bytes, list[Array | str]]:
    """A piece of the random programs: its cubin, and what each leaves in memory here."""
    from inspector.listing.ptx import parse_ptx
    from inspector.listing.ptx_code import read_module
    from tests.execute.programs import launch

    text = random_programs.module(seeds, INSTRUCTIONS)
    module = read_module(parse_ptx(text))
    out: list[Array | str] = []
    for seed in seeds:
        memory = random_programs.memory_for(seed)
        words = random_ptx.words(random_programs.LANES, seed)
        try:
            launch(module, (random_programs.BLOCKS,), random_programs.THREADS, [words, memory],
                   f"p{seed}")  # fmt: skip
            out.append(memory)
        except Exception as error:  # an executor's failure is a result like any other
            out.append(f"{type(error).__name__}: {error}")
    return assembled(text), out


def of_instructions(first: int) -> tuple[bytes, list[Array | str]]:
    """Some instructions: their cubin, and what each gives here."""
    from inspector.listing.ptx import parse_ptx
    from inspector.listing.ptx_code import read_module
    from tests.execute.programs import launch

    chosen = INSTRUCTIONS[first : first + PIECE]
    text = random_ptx.instruction_module(chosen)
    module = read_module(parse_ptx(text))
    out: list[Array | str] = []
    for k in range(len(chosen)):
        made = np.zeros(SETS, np.uint64)
        launch(module, (SETS // 256,), 256, [random_ptx.words(SETS, 5), made], f"i{k}")
        out.append(made)
    return assembled(text), out


class Device:
    """Runs kernels of two pointers."""

    def __init__(self) -> None:
        self.driver = Driver()

    def run(self, module: Any, entry: str, grid: int, threads: int, words: Array,
            memory: Array) -> Array:  # fmt: skip
        """What the kernel leaves where its second argument points."""
        import torch

        first = torch.from_numpy(words.view(np.uint8).reshape(-1)).cuda()
        second = torch.from_numpy(memory.view(np.uint8).reshape(-1).copy()).cuda()
        torch.cuda.synchronize()
        self.driver.launch(
            module,
            entry,
            (grid, 1, 1),
            (threads, 1, 1),
            0,
            [value.data_ptr().to_bytes(8, "little") for value in (first, second)],
        )
        back: Array = second.cpu().numpy().view(memory.dtype).reshape(memory.shape)
        return back


def serve(pipe: Any) -> None:
    """Runs random programs on the device until it is told to end, or one of them ends it."""
    device = Device()
    while order := pipe.recv():
        cubin, seeds = order
        module = device.driver.load(cubin)
        for seed in seeds:
            words = random_ptx.words(random_programs.LANES, seed)
            memory = random_programs.memory_for(seed)
            try:
                pipe.send(device.run(module, f"p{seed}", random_programs.BLOCKS,
                                     random_programs.THREADS, words, memory))  # fmt: skip
            except RuntimeError as error:
                pipe.send(str(error))
                return
        device.driver.unload(module)


class Disposable:
    """A process with a device; another after an error, or a launch without an end."""

    PATIENCE = 30
    """Seconds for one program, of which the first has to start Python and CUDA."""

    def __init__(self) -> None:
        self.context = multiprocessing.get_context("spawn")
        self.start()

    def start(self) -> None:
        self.pipe, theirs = self.context.Pipe()
        self.process = self.context.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()

    def programs(self, cubin: bytes, seeds: range) -> list[Array | str]:
        """What each of the programs leaves, or why there is nothing."""
        out: list[Array | str] = []
        while len(out) < len(seeds):
            rest = seeds[len(out) :]
            self.pipe.send((cubin, rest))
            for _ in rest:
                ended = self.pipe.poll(self.PATIENCE)
                out.append(self.pipe.recv() if ended else f"no end in {self.PATIENCE} s")
                if isinstance(out[-1], str):
                    self.process.kill()
                    self.start()
                    break
        return out


def judge_programs(pool: Any, count: int, keep: Path | None) -> dict[str, Any]:
    """Random programs: how many, and which differ.

    Of those that do, ``only_optimized`` are like here when ptxas does not optimize: then it is
    ptxas that makes of the same text two programs, and nothing is said about what is right here.
    """
    pieces = [range(k, min(k + PIECE, count)) for k in range(0, count, PIECE)]
    device, different, kept = Disposable(), dict[str, str](), list[str]()
    begun = time.time()
    for seeds, (cubin, results) in zip(pieces, pool.imap(of_programs, pieces), strict=True):
        both = zip(seeds, results, device.programs(cubin, seeds), strict=True)
        for seed, mine, theirs in both:
            if isinstance(mine, str) or isinstance(theirs, str):
                said = [x if isinstance(x, str) else "nothing" for x in (mine, theirs)]
                different[f"p{seed}"] = f"here: {said[0]}; on the device: {said[1]}"
                continue
            if seed < KEPT_PROGRAMS:
                text = random_programs.entry("p", seed, INSTRUCTIONS)
                words = random_ptx.words(random_programs.LANES, seed)
                memory = random_programs.memory_for(seed)
                given = digest(text.encode(), words.tobytes(), memory.tobytes())
                kept.append(f"{seed} {given} {digest(theirs.tobytes())}")
            if not np.array_equal(mine, theirs):
                places = np.flatnonzero(mine != theirs)
                different[f"p{seed}"] = f"{len(places)} bytes, the first at {places[0]}"
                if keep and len(different) <= 40:
                    np.save(keep / f"p{seed}.npy", theirs)
        if seeds[-1] % 1000 == 999:
            print(f"{seeds[-1] + 1} programs, {len(different)} differ, {time.time() - begun:.0f} s",
                  dict(list(different.items())[-5:]), file=sys.stderr)  # fmt: skip
    unlike = dict[str, str]()
    for name in list(different):
        alone = range(int(name[1:]), int(name[1:]) + 1)
        plain = assembled(random_programs.module(alone, INSTRUCTIONS), level=0)
        (here,), (there,) = of_programs(alone)[1], device.programs(plain, alone)
        if not isinstance(here, str) and not isinstance(there, str) and (here == there).all():
            unlike[name] = different.pop(name)
    device.process.kill()
    if keep:
        (keep / "programs.txt").write_text("\n".join([*kept, ""]))
    return {"programs": count, "different": different, "only_optimized": unlike}


def judge_instructions(pool: Any, device: Device, keep: Path | None) -> dict[str, Any]:
    """Each instruction alone."""
    words = random_ptx.words(SETS, 5)
    different, kept = {}, []
    firsts = range(0, len(INSTRUCTIONS), PIECE)
    for first, (cubin, results) in zip(firsts, pool.imap(of_instructions, firsts), strict=True):
        module = device.driver.load(cubin)
        for k, mine in enumerate(results):
            one = INSTRUCTIONS[first + k]
            theirs = device.run(module, f"i{k}", SETS // 256, 256, words,
                                np.zeros(SETS, np.uint64))  # fmt: skip
            part = theirs[:KEPT_SETS].tobytes()
            kept.append(" ".join([*one, digest(words[:KEPT_SETS].tobytes()), digest(part)]))
            assert not isinstance(mine, str)
            places = np.flatnonzero(mine != theirs)
            if len(places):
                if keep:
                    np.save(keep / f"i{first + k}.npy", theirs)
                n = int(places[0])
                different[" ".join(one)] = {
                    "lanes": len(places), "words": [f"{int(w):#x}" for w in words[n]], "lane": n,
                    "here": f"{int(mine[n]):#x}", "device": f"{int(theirs[n]):#x}",
                }  # fmt: skip
        device.driver.unload(module)
    if keep:
        (keep / "instructions.txt").write_text("\n".join([*kept, ""]))
    return {"instructions": len(INSTRUCTIONS), "sets": SETS, "different": different}


EXACT: dict[str, Callable[[Array], Array]] = {
    "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "rcp": lambda x: 1 / x, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip
RANGES = {"ex2": (-126, 126), "sin": (-np.pi, np.pi), "cos": (-np.pi, np.pi), "tanh": (-10, 10)}


def judge_approximate(device: Device) -> dict[str, Any]:
    """Approximate instructions of singles: the furthest of the device from the exact value."""
    rng, out = np.random.default_rng(3), {}
    chosen = [(f"{base}.approx.f32", "f", "f") for base in EXACT]
    chosen += [("div.approx.f32", "f", "ff"), ("div.full.f32", "f", "ff")]
    module = device.driver.load(assembled(random_ptx.instruction_module(chosen)))
    for k, (opcode, _, sources) in enumerate(chosen):
        base = opcode.split(".")[0]
        if base in RANGES:
            x = rng.uniform(*RANGES[base], OPERANDS).astype(np.float32)
        else:
            x = np.exp2(rng.uniform(-60, 60, OPERANDS)).astype(np.float32)
        y = np.exp2(rng.uniform(-60, 60, OPERANDS)).astype(np.float32)
        words = np.zeros((OPERANDS, 4), np.uint64)
        words[:, 0], words[:, 1] = x.view(np.uint32), y.view(np.uint32)
        made = device.run(module, f"i{k}", OPERANDS // 256, 256, words,
                          np.zeros(OPERANDS, np.uint64))  # fmt: skip
        got = made.astype(np.uint32).view(np.float32).astype(np.float64)
        wide, divisor = x.astype(np.float64), y.astype(np.float64)
        exact = wide / divisor if len(sources) == 2 else EXACT[base](wide)
        if base == "lg2":  # outside of this interval the ISA bounds the relative error
            exact, got = (np.where((wide > 0.5) & (wide < 2), v, np.nan) for v in (exact, got))
        off = np.abs(got - exact)
        near = exact.astype(np.float32)
        spacing = np.spacing(np.abs(near)).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.nanmax(np.where(exact != 0, off / np.abs(exact), 0))
        out[opcode] = {
            # Units in the last place from the value that is correctly rounded, as NVIDIA counts.
            "ulps": float(np.nanmax(np.abs(got - near) / spacing)),
            "absolute": float(np.log2(np.nanmax(off))), "relative": float(np.log2(relative)),
            "correctly_rounded": float(np.mean((got == near)[~np.isnan(got)])),
        }  # fmt: skip
    return out


def beyond(measured: dict[str, Any]) -> list[str]:
    """Bounds of the table that the device does not keep."""
    from inspector.reader import tables

    table, wrong = tables.table("approximate"), []
    for opcode, figures in measured.items():
        for word in ("ulps", "relative", "absolute"):
            bound = table[opcode].get(word)
            if bound is not None and figures[word] > bound:
                wrong.append(f"{opcode}: {word} {figures[word]:.3f}, the table says {bound}")
    return wrong


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--only", choices=("programs", "instructions", "approximate"))
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args(words)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    begun, told = time.time(), dict[str, Any]()
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        if options.only in (None, "instructions"):
            told["one"] = judge_instructions(pool, Device(), options.keep)
        if options.only in (None, "approximate"):
            told["approximate"] = judge_approximate(Device())
            told["beyond"] = beyond(told["approximate"])
        if options.only in (None, "programs"):
            told["many"] = judge_programs(pool, options.programs, options.keep)
    told["seconds"] = round(time.time() - begun)
    print(json.dumps(told, indent=1))
    wrong = [
        *told.get("one", {}).get("different", ()), *told.get("many", {}).get("different", ()),
        *told.get("beyond", ()),
    ]  # fmt: skip
    print("NOT as it should be" if wrong else "as it should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
