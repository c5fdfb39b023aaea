"""torch.square(x), x * x and x ** 2: the same numbers through different operators.

torch.square calls aten::pow, x ** 2 too, and x * x calls aten::mul. On the lecture's GPU they took
941, 855 and 851 µs at 10000×10000. The table of torch.profiler shows which aten operator each one
became; on a GPU its CUDA columns show the kernels and their times, too.
"""

import torch
from torch.profiler import ProfilerActivity, profile, schedule

WAYS = {
    "torch.square(x)": torch.square,
    "x * x": lambda x: x * x,
    "x ** 2": lambda x: x**2,
}


def table(way, x):
    """Profile as the lecture does: a step to skip, one to warm up, two that count."""
    plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule=plan) as prof:
        for _ in range(4):
            way(x)
            torch.cuda.synchronize()
            prof.step()
    events = prof.key_averages()
    on_gpu = any(getattr(event, "self_device_time_total", 0) for event in events)
    key = "self_cuda_time_total" if on_gpu else "self_cpu_time_total"
    return on_gpu, events.table(sort_by=key, row_limit=6, max_name_column_width=40)


if __name__ == "__main__":
    x = torch.randn(1823, 781, device="cuda")
    for name, way in WAYS.items():
        torch.testing.assert_close(way(x), torch.square(x))
        on_gpu, text = table(way, x)
        print(f"{name}: agrees; GPU times {'measured' if on_gpu else 'not measured'}")
        print(text)
