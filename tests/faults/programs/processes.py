# mypy: ignore-errors
"""Processes by fork and by spawn, and a shell, while threads run; children launch as well."""

import hashlib
import multiprocessing
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor

LIBRARY = """import triton, triton.language as tl
@triton.jit
def scale(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + i, tl.load(x + i, i < n) * 3, i < n)
"""


def launched(times):
    import torch
    from faults_library import scale

    x = torch.arange(50, dtype=torch.float32, device="cuda")
    for _ in range(times):
        scale[(1,)](x, 50, B=64)
    return hashlib.sha256(x.cpu().numpy().tobytes()).hexdigest()[:16]


def hashed(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main():
    with open("faults_library.py", "w") as file:  # noqa: PTH123
        file.write(LIBRARY)
    sys.path.insert(0, "")
    done = threading.Event()
    threads = [threading.Thread(target=done.wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for method, function, given in (("fork", launched, (1, 2)), ("spawn", hashed, ("a", "b"))):
        context = multiprocessing.get_context(method)
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            print(method, *pool.map(function, given))
        process = context.Process(target=hashed, args=("c",))
        process.start()
        process.join()
        print(process.exitcode)
    print(subprocess.run(["sh", "-c", "echo shell; exit 3"], capture_output=True, check=False))
    done.set()
    for thread in threads:
        thread.join()
    print("here", launched(2))
    process = multiprocessing.get_context("fork").Process(target=hashed, args=("d",))
    process.start()
    process.join()
    print(process.exitcode)


if __name__ == "__main__":
    main()
