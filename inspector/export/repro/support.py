"""What every script that is written says beside its kernel: making inputs, comparing, timing.

Python texts, copied into the script, which imports nothing of ptxview.
"""

INPUTS = '''
class Inputs:
    """Makes tensors of a layout: the same values each time, on every device, for the same seed."""

    def __init__(self, device, seed, given):
        self.device, self.seed, self.given = device, seed, given
        self.made = {}  # by name: the tensor, and all of its memory

    def tensor(self, name, dtype, shape, strides, alignment=512, low=None, high=None, device=None):
        """Floats from a normal distribution; integers from low to high, zeros if they are None."""
        given = self.given.get(name)
        if given is not None and tuple(given.shape) != tuple(shape):
            shape = tuple(given.shape)
            strides = torch.empty(shape, device="meta").stride()
        count = 0 if 0 in shape else 1 + sum((n - 1) * by for n, by in zip(shape, strides))
        size = torch.empty((), dtype=dtype).element_size()
        device = device or self.device
        raw = torch.zeros(count * size + 1024, dtype=torch.uint8, device=device)
        start = -raw.data_ptr() % 512 + alignment % 512
        flat = raw[start : start + count * size].view(dtype)
        if count and given is None:
            flat.copy_(self.values(name, dtype, count, low, high))
        tensor = flat.as_strided(shape, strides, flat.storage_offset())
        if given is not None:
            whole = given.dtype in (torch.uint8, torch.uint16, torch.int16)
            bitwise = whole and dtype.is_floating_point and given.element_size() == size
            tensor.copy_(given.view(dtype) if bitwise else given.to(dtype))
        self.made[name] = tensor, flat
        return tensor

    def number(self, name, value):
        """A scalar, as it was recorded or as it is given."""
        given = self.given.get(name)
        return value if given is None else given.item()

    def values(self, name, dtype, count, low, high):
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + zlib.crc32(name.encode()))
        if dtype == torch.bool:
            return torch.randint(0, 2, (count,), generator=draw).to(dtype)
        if dtype.is_complex:
            return torch.view_as_complex(torch.randn(count, 2, generator=draw)).to(dtype)
        if str(dtype) in BYTES:
            first, last = BYTES[str(dtype)]
            raw = torch.randint(first, last, (count,), generator=draw, dtype=torch.uint8)
            return raw.view(dtype)
        if dtype.is_floating_point:
            wide = torch.float64 if dtype == torch.float64 else torch.float32
            return torch.randn(count, generator=draw, dtype=wide).to(dtype)
        if low is None or high is None:
            return torch.zeros(count, dtype=dtype)
        end = min(high, 2**63 - 2) + 1
        return torch.randint(low, end, (count,), generator=draw, dtype=torch.int64).to(dtype)


# Formats of which only bytes can be drawn: scales around one, and two values a byte.
BYTES = {"torch.float8_e8m0fnu": (120, 135), "torch.float4_e2m1fn_x2": (0, 256)}


def arrays(path):
    """Tensors by name out of an .npz; nothing in it is unpickled."""
    if path is None:
        return {}
    import numpy

    with numpy.load(path, allow_pickle=False) as archive:
        return {name: torch.from_numpy(numpy.array(archive[name])) for name in archive.files}
'''

COMPARE = '''
def snapshot(made):
    """All tensors as they are now, on the CPU."""
    return {name: tensor.detach().cpu().clone() for name, (tensor, _) in made.items()}


def bits(tensor):
    """What can be compared where values cannot: a NaN, say, or a format without operators."""
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8) if flat.numel() else torch.zeros(0, dtype=torch.uint8)


def changed(before, after):
    """Names of the tensors that the launch has written to."""
    return [name for name in before if not torch.equal(bits(before[name]), bits(after[name]))]


def tolerance(dtype):
    """How far a value may be off, as a part of itself and of the tensor's root mean square."""
    return TOLERANCE if TOLERANCE is not None else TOLERANCES.get(dtype, 0.0)


TOLERANCES = {
    torch.float64: 1e-9, torch.complex128: 1e-9, torch.float32: %(float32)s, torch.complex64: 1e-4,
    torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float8_e4m3fn: 0.25, torch.float8_e5m2: 0.5,
}
TOLERANCE = None  # --tolerance


def compare(name, got, expected):
    """Say how far a tensor is off; whether that is within its tolerance."""
    if got.shape != expected.shape:
        print(f"  {name}: DIFFERS: {tuple(got.shape)}, and {tuple(expected.shape)} was expected")
        return False
    floating = got.dtype.is_floating_point or got.dtype.is_complex
    if not floating or str(got.dtype) in BYTES:
        wrong = bits(got) != bits(expected.to(got.dtype))
        print(f"  {name}: {'DIFFERS' if wrong.any() else 'the same'}, {int(wrong.sum())} bytes of "
              f"{wrong.numel()} differ")
        return not bool(wrong.any())
    wide = torch.complex128 if got.dtype.is_complex else torch.float64
    a, b = got.to(wide), expected.to(wide)
    finite = torch.isfinite(b)
    scale = b[finite].abs().square().mean().sqrt() if finite.any() else torch.tensor(0.0)
    off = (a - b).abs()
    same = (a == b) | (a.isnan() & b.isnan())
    wrong = ~same & ~(off <= tolerance(got.dtype) * (b.abs() + scale))
    most = off[torch.isfinite(off)].max().item() if torch.isfinite(off).any() else 0.0
    print(f"  {name}: {'DIFFERS' if wrong.any() else 'agrees'}, at most {most:.3g} off where "
          f"values are about {scale.item():.3g}, {int(wrong.sum())} of {wrong.numel()} beyond "
          f"{tolerance(got.dtype):g}")
    if wrong.any():
        at = tuple(wrong.nonzero()[0].tolist())
        print(f"    first at {list(at)}: {got[at].item()}, and {expected[at].item()} was expected")
    return not bool(wrong.any())
'''

TIME = '''
def emulated():
    """Whether the device is no device: its times would say nothing."""
    return "emulated" in torch.cuda.get_device_name()


def time_it(run, made, before, written):
    """Median and quartiles of 100 launches by CUDA events, the L2 cache flushed before each."""
    if emulated():
        print("time: not taken, the device is emulated")
        return
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    integers = [n for n in written if n in made and not made[n][0].dtype.is_floating_point]
    times = []
    for turn in range(120):
        for name in integers:  # as indices they must not grow from launch to launch
            made[name][0].copy_(before[name])
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        if turn >= 20:
            times.append(begin.elapsed_time(end) * 1e3)
    low, middle, high = statistics.quantiles(times, n=4)
    device = torch.cuda.get_device_name()
    print(f"time: {middle:.2f} µs, quartiles {low:.2f} to {high:.2f}, on {device}")
'''

INTERPRETER = '''
def interpreted(args):
    """The results of Triton's own interpreter on the same kernel and inputs, in a separate process,
    since Triton decides when it is imported. None, and why, where it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.pt")
        command = [sys.executable, os.path.abspath(__file__), "--interpret-to", out]
        command += ["--seed", str(args.seed), "--seconds", str(args.seconds)]
        command += [] if args.inputs is None else ["--inputs", args.inputs]
        env = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
        try:
            child = subprocess.run(
                command, env=env, timeout=10 * args.seconds + 300, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )
        except subprocess.TimeoutExpired:
            return None, "it takes too long"
        if child.returncode:
            lines = [line for line in child.stdout.splitlines() if line.strip()]
            return None, lines[-1] if lines else f"it ended with {child.returncode}"
        return torch.load(out, weights_only=True), ""


def interpret_to(path, args):
    """In that process: launch on the CPU, and keep all tensors.

    The interpreter runs one program after the other. Where all would take longer than --seconds,
    some run, spread over the grid, and only what they write is compared.
    """
    give_libdevice()
    let_scalars_be_numbers()
    count = GRID[0] * GRID[1] * GRID[2]
    began = time.monotonic()
    programs_run([0], args)
    each = time.monotonic() - began
    most = max(1, int(args.seconds / max(each, 1e-6)))
    places = range(count) if count <= most else [n * count // most for n in range(most)]
    before, after = programs_run(places, args)
    if len(places) < count:
        wrote = {name: elements_changed(before[name], after[name]) for name in after}
    else:
        wrote = {}
    torch.save({"tensors": after, "wrote": wrote, "programs": [len(places), count]}, path)


def elements_changed(before, after):
    """Which elements of a tensor are others, flat."""
    if not after.numel():
        return torch.zeros(0, dtype=torch.bool)
    return (bits(before) != bits(after)).reshape(after.numel(), -1).any(1)


def programs_run(places, args):
    """Tensors before and after these programs of the grid have run."""
    global GRID
    from triton.runtime import interpreter

    builder, whole = interpreter.interpreter_builder, GRID
    kind = type(builder)
    arguments, made = make_inputs("cpu", args.seed, arrays(args.inputs))
    before = snapshot(made)

    def place(n, *ignored):
        at = places[n]
        rest, x = at // whole[0], at % whole[0]
        kind.set_grid_idx(builder, x, rest % whole[1], rest // whole[1])

    builder.set_grid_dim = lambda *ignored: kind.set_grid_dim(builder, *whole)
    builder.set_grid_idx = place
    GRID = (len(places), 1, 1)
    try:
        launch(arguments)
    finally:
        GRID = whole
    return before, snapshot(made)


def give_libdevice():
    """The interpreter has no libdevice: torch's functions of the same names replace it."""
    for title in ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice"):
        module = sys.modules.get(title)
        for name, value in list(vars(module).items()) if module else ():
            if callable(value) and getattr(value, "__module__", "").endswith(".libdevice"):
                setattr(module, name, by_torch(name))
                for own in [n for n, v in globals().items() if v is value]:
                    globals()[own] = by_torch(name)


def let_scalars_be_numbers():
    """Older interpreters convert an array of one element to a number, which NumPy has ceased to."""
    from triton.runtime import interpreter

    own = interpreter._patch_lang

    def patched(function):
        scope = own(function)
        tl.tensor.__index__ = lambda tensor: int(tensor.handle.data.reshape(-1)[0])
        return scope

    interpreter._patch_lang = patched


OTHER_NAMES = {
    "fabs": "abs", "rint": "round", "nearbyint": "round", "isinfd": "isinf", "isnand": "isnan",
    "finitef": "isfinite", "isfinited": "isfinite", "div_rn": "div", "sqrt_rn": "sqrt",
    "fast_expf": "exp", "fast_logf": "log", "fast_powf": "pow", "fast_tanhf": "tanh",
    "fast_sinf": "sin", "fast_cosf": "cos", "fast_dividef": "div", "cyl_bessel_i0": "i0",
    "cyl_bessel_i1": "i1", "j0": "bessel_j0", "j1": "bessel_j1", "normcdf": "ndtr",
}


def by_torch(name):
    wanted = OTHER_NAMES.get(name, name)
    function = getattr(torch, wanted, None) or getattr(torch.special, wanted, None)

    def call(*args, **ignored):
        if function is None:
            raise NotImplementedError(f"libdevice.{name} is not known to the interpreter")
        from triton.runtime.interpreter import TensorHandle

        given = [a for a in args if isinstance(a, tl.tensor)]
        tensors = [
            torch.from_numpy(a.handle.data.copy()) if isinstance(a, tl.tensor)
            else torch.tensor(getattr(a, "value", a), dtype=torch.float32)
            for a in args
        ]
        data = function(*tensors).numpy()
        kind = given[0].dtype.scalar
        if data.dtype == bool:  # as in CUDA, a truth value is an int
            data, kind = data.astype("int32"), tl.int32
        blocks = any(a.type.is_block() for a in given)
        handle = TensorHandle(data, kind)
        return tl.tensor(handle, tl.block_type(kind, list(data.shape)) if blocks else kind)

    return call
'''

CHECK_REFERENCE = '''
def expected_by_reference(args, written):
    """What the reference makes of the same inputs, by the names of tensors."""
    arguments, made = make_inputs("cuda", args.seed, arrays(args.inputs))
    parameters = inspect.signature(reference).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        given = arguments
    else:
        given = {p.name: arguments[p.name] for p in parameters if p.name in arguments}
    result = reference(**given)
    if result is None:  # it has written to its arguments as the kernel does
        return snapshot(made)
    if not isinstance(result, dict):
        several = result if isinstance(result, (tuple, list)) else (result,)
        if len(several) != len(written):
            raise SystemExit(
                f"the reference returns {len(several)} tensors, and the kernel writes to "
                f"{', '.join(written) or 'none'}"
            )
        result = dict(zip(written, several))
    return {name: tensor.detach().cpu() for name, tensor in result.items()}
'''

MAIN = '''
def main():
    """0: it agrees, or there is nothing to compare with, which is said; 1: it does not."""
    global TOLERANCE
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="of the inputs' values (0)")
    parser.add_argument("--inputs", metavar="FILE.npz", help="arrays by names of arguments instead")
    parser.add_argument(
        "--check", choices=%(choices)s, default=%(default)r,
        help="what to compare with (%(default)s)",
    )
    parser.add_argument("--tolerance", type=float, help="instead of the dtype's own")
    parser.add_argument("--no-time", action="store_true", help="do not take the time")
%(interpret)s    if not torch.cuda.is_available():
        print("torch finds no GPU here. On an emulated one: ptxview run --target sm_90 SCRIPT")
        return 2
    arguments, made = make_inputs("cuda", args.seed, arrays(args.inputs))
    before = snapshot(made)
    returned = launch(arguments) or {}
    torch.cuda.synchronize()
    after = snapshot(made) | {name: tensor.cpu() for name, tensor in returned.items()}
    written = [*changed(before, after), *returned]
    print(f"{NAME} ran; it made {', '.join(written) or 'no tensor'}")
    status = check(args, after, written)
    if not args.no_time:
        time_it(lambda: launch(arguments), made, before, written)
    return status
'''

CHECK = '''
def check(args, after, written):
    """Compare every tensor, those as well that are to stay as they are."""
%(check)s
    wrong, compared_any = [], False
    for name in expected:
        only = wrote.get(name)
        if only is not None:
            if not only.any() and name not in written:
                continue
            pair = after[name].reshape(-1)[only], expected[name].reshape(-1)[only]
        else:
            pair = after[name], expected[name]
        compared_any = compared_any or pair[0].numel() > 0
        wrong += [] if compare(name, *pair) else [name]
    if not compared_any:
        print("NOT CHECKED: there is no value to compare")
        return 2
    print(f"NOT the same: {', '.join(wrong)}" if wrong else f"agrees with {compared}")
    return 1 if wrong else 0
'''

NO_CHECK = '''
def check(args, after, written):
    """There is nothing to compare with."""
    print("NOT COMPARED: it has no reference; ptxview repro --check-with FILE.py:FUNCTION adds one")
    return 0
'''

END = """
if __name__ == "__main__":
    sys.exit(main())
"""

PARSED = """\
    args = parser.parse_args()
    TOLERANCE = args.tolerance
"""
INTERPRET = """\
    parser.add_argument("--seconds", type=float, default=30, help="of the interpreter (30)")
    parser.add_argument("--interpret-to", help=argparse.SUPPRESS)
    args = parser.parse_args()
    TOLERANCE = args.tolerance
    if args.interpret_to:
        interpret_to(args.interpret_to, args)
        return 0
"""
