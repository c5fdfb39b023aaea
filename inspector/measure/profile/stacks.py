"""Python's stacks of a profile, in the form that flame graphs are drawn from.

As ``export_stacks`` of torch.profiler writes them (``outer;inner;aten::mul 123``, µs), but from the
trace: what torch itself exports is empty in some of its versions.
"""

from __future__ import annotations

from collections import defaultdict

from inspector.measure.profile.trace import NOBODY, RUNTIME, STEP, GatheredTrace, Lane, gather

_SPACES = str.maketrans(" ;\t\r\n", "_____")
OURS = ("ptxview_probes", "inspector/probes/", "torch/profiler/")


def stacks(data: bytes, gpu: bool) -> list[str]:
    """A line a stack, with the µs of its innermost operator itself: the GPU's, or the CPU's.

    Raises ``Unreadable`` for what is no trace.
    """
    trace = gather(data, stacks=True)
    own = _gpu_times(trace) if gpu else None
    sums: dict[str, int] = defaultdict(int)
    for thread, lane in trace.lanes.items():
        frames = trace.frames.get(thread)
        around = _around(lane, frames)
        seen_frames: dict[int, str] = {}
        for n in lane.order:
            if not lane.kept[n] or (lane.kind[n] == RUNTIME and gpu):
                continue
            duration = lane.own[n] if own is None else own.get((thread, n), 0)
            if duration <= 0:
                continue
            words = [_frames(trace, frames, around[n], seen_frames)] if frames is not None else []
            words += [w.translate(_SPACES) for w in _calls(trace, lane, n)]
            line = ";".join(w for w in words if w)
            if line:
                sums[line] += duration
    return [f"{line} {ns // 1000}" for line, ns in sorted(sums.items()) if ns >= 1000]


def _gpu_times(trace: GatheredTrace) -> dict[tuple[object, int], int]:
    out: dict[tuple[object, int], int] = defaultdict(int)
    for work in trace.work:
        launch = trace.by_external.get(work.external) or trace.by_correlation.get(work.correlation)
        if launch is not None:
            thread, span = launch
            lane = trace.lanes[thread]
            while not lane.kept[span] or (
                lane.kind[span] == RUNTIME and lane.parent[span] != NOBODY
            ):
                span = lane.parent[span]
            out[thread, span] += work.end - work.start
    return out


def _around(lane: Lane, frames: Lane | None) -> dict[int, int]:
    """For each span, the innermost Python function that contains it."""
    out = dict.fromkeys(lane.order, NOBODY)
    if frames is None:
        return out
    stack: list[int] = []
    next_frame = 0
    for n in lane.order:
        while (
            next_frame < len(frames.order)
            and frames.start[frames.order[next_frame]] <= lane.start[n]
        ):
            stack.append(frames.order[next_frame])
            next_frame += 1
        # One that has ended never comes back; one that is still open stays below.
        while stack and frames.end[stack[-1]] <= lane.start[n]:
            stack.pop()
        out[n] = stack[-1] if stack else NOBODY
    return out


def _frames(trace: GatheredTrace, frames: Lane, frame: int, texts: dict[int, str]) -> str:
    """Names of Python's functions from the outermost to this one."""
    todo: list[int] = []
    while frame != NOBODY and frame not in texts:
        todo.append(frame)
        frame = frames.parent[frame]
    text = texts.get(frame, "")
    for pending in reversed(todo):
        name = trace.names.texts[frames.name[pending]]
        word = "" if any(part in name for part in OURS) else name.translate(_SPACES)
        text = texts[pending] = ";".join(w for w in (text, word) if w)
    return text


def _calls(trace: GatheredTrace, lane: Lane, n: int) -> list[str]:
    """Names of the operators from the outermost to this one."""
    out: list[str] = []
    span = n
    while span != NOBODY and len(out) < 64:
        name = trace.names.texts[lane.name[span]]
        if lane.kept[span] and not name.startswith(STEP[:-1]):
            out.append(name)
        span = lane.parent[span]
    return out[::-1]
