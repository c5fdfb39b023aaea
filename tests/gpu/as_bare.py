"""Compare cold runs of whole programs under ``ptxview run`` with the bare programs.

    python -m tests.gpu.as_bare [--mixed] [--runs N] [--at-once N] [PROGRAM.py…]

Run by hand on a machine with a GPU; its own programs are a Llama forward pass under max-autotune, a
GPT-2 training step (both of transformers, random weights) and Liger's operators where it is
installed; with ``--mixed`` the programs of tests/gpu/mixed.py instead. Each run has caches of its
own. Exits with 1 where a recorded run's exit status or standard output differs from the bare run's,
or where standard error has a line of ptxview's probes or a traceback that the bare run lacks. Of
given programs the words of standard output are compared, not its numbers.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests.gpu import mixed

REPOSITORY = Path(__file__).resolve().parents[2]
TIME_LIMIT_SECONDS = 560
PROGRAMS = {
    "llama": """
import torch
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(0)
config = LlamaConfig(hidden_size=512, intermediate_size=1376, num_hidden_layers=2,
                     num_attention_heads=8, num_key_value_heads=4, vocab_size=4096)
model = LlamaForCausalLM(config).cuda().to(torch.bfloat16).eval()
ids = torch.randint(0, 4096, (4, 128), device="cuda")
with torch.no_grad():
    wanted = model(ids, use_cache=False).logits.float()
    compiled = torch.compile(model, mode="max-autotune-no-cudagraphs")
    for _ in range(3):
        got = compiled(ids, use_cache=False).logits.float()
print("llama", tuple(got.shape), ((got - wanted).norm() / wanted.norm()).item() < 3e-2)
""",
    "gpt2": """
import torch
from transformers import GPT2Config, GPT2LMHeadModel
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=256, n_head=4, vocab_size=2048,
                                   resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
step = torch.compile(lambda ids: model(ids, labels=ids).loss)
ids = torch.randint(0, 2048, (4, 128), device="cuda")
losses = []
for _ in range(20):
    with torch.autocast("cuda", torch.bfloat16):
        loss = step(ids)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
print("gpt2", round(losses[0], 1), losses[-1] < losses[0] - 1)
""",
    "liger": """
import torch
from liger_kernel.transformers import LigerRMSNorm, LigerLayerNorm, LigerCrossEntropyLoss
from liger_kernel.transformers.functional import liger_swiglu, liger_geglu, liger_softmax
torch.manual_seed(0)
x = torch.randn(512, 1024, device="cuda", requires_grad=True)
for name, f in (("rms", LigerRMSNorm(1024).cuda()), ("layer", LigerLayerNorm(1024).cuda()),
                ("softmax", liger_softmax), ("swiglu", lambda x: liger_swiglu(x, x)),
                ("geglu", lambda x: liger_geglu(x, x))):
    y = f(x)
    y.sum().backward()
    print(name, round(y.float().abs().mean().item(), 3), bool(x.grad.isfinite().all()))
loss = LigerCrossEntropyLoss()(x, torch.arange(512, device="cuda"))
loss.backward()
print("cross entropy", round(loss.item(), 3))
""",
}


class Ended(NamedTuple):
    status: int
    out: str
    err: str
    seconds: float


def run(script: Path, recorded: bool) -> Ended:
    """Run a program with new caches."""
    with tempfile.TemporaryDirectory() as folder:
        names = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR")
        env = {**os.environ, **{name: f"{folder}/{name}" for name in names}}
        paths = (str(REPOSITORY), os.environ.get("PYTHONPATH"))
        env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        ours = f"-m inspector run --no-tui -o {folder}/r.ptxview".split() if recorded else []
        argv = [sys.executable, *ours, str(script)]
        limit: dict[str, Any] = {"timeout": TIME_LIMIT_SECONDS, "capture_output": True}
        began = time.monotonic()
        try:
            done = subprocess.run(argv, env=env, cwd=folder, text=True, check=False, **limit)
        except subprocess.TimeoutExpired:
            return Ended(-1, "", f"no end in {TIME_LIMIT_SECONDS} s", TIME_LIMIT_SECONDS)
        out, err = (text.replace(folder, "") for text in (done.stdout, done.stderr))
        return Ended(done.returncode, out, err, time.monotonic() - began)


def words(text: str) -> set[str]:
    """The words of an output without its numbers: times differ between any two runs."""
    return set(re.findall(r"[A-Za-z_]{3,}", text))


def difference(bare: Ended, recorded: Ended, exact: bool) -> str:
    """The first difference from the bare run; "" without one."""
    if recorded.status != (128 - bare.status if bare.status < 0 else bare.status):
        return f"status {recorded.status}, bare {bare.status}: {recorded.err[-2000:]}"
    if (exact and recorded.out != bare.out) or words(recorded.out) != words(bare.out):
        return f"stdout {recorded.out!r}, bare {bare.out!r}"
    for sign in ("ptxview_probes", "Traceback"):
        if sign in recorded.err and sign not in bare.err:
            return recorded.err[-2000:]
    return ""


def main() -> int:
    """Run every program bare and recorded; print a line for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--only-given", action="store_true")
    parser.add_argument("--mixed", action="store_true")
    options = parser.parse_args()
    changed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.at_once) as pool:
        scripts = [path.resolve() for path in options.programs]
        own = mixed.PROGRAMS if options.mixed else PROGRAMS
        for name, text in own.items() if not options.only_given else ():
            scripts.append(Path(folder, f"{name}.py"))
            scripts[-1].write_text(text)
        bare = {script: pool.submit(run, script, False) for script in scripts}
        runs = {s: [pool.submit(run, s, True) for _ in range(options.runs)] for s in scripts}
        for script in scripts:
            plain = bare[script].result()
            for number, future in enumerate(runs[script], 1):
                ended = future.result()
                said = difference(plain, ended, script.parent == Path(folder))
                changed += bool(said)
                took = f"{ended.seconds:.1f} s, bare {plain.seconds:.1f} s"
                print(f"{script.name} {number}: {said or 'as bare'}, {took}", flush=True)
            if plain.status:
                print(f"{script.name} bare: {plain.err[-500:]}")
    print(f"{changed} changed")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
