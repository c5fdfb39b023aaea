"""Scripts that repeat a launch of a Triton kernel, or a call of an extension."""

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, pairwise

from msgspec import Struct

from inspector.analysis.argument_memory import memory_blocks
from inspector.analysis.python_source import CutSource, is_jitted, python_literal
from inspector.base.errors import UsageError
from inspector.base.grouping import by_key
from inspector.base.model import Argument, Share
from inspector.base.names import words

CHECKS = ("interpreter", "reference", "none")  # what a launch can be compared with
TL_TYPES = {
    "int1": "tl.int1",
    **{f"{kind}{n}": f"tl.{kind}{n}" for kind in ("int", "uint") for n in (8, 16, 32, 64)},
    **{f"fp{n}": f"tl.float{n}" for n in (16, 32, 64)},
    "bf16": "tl.bfloat16",
    "fp8e4nv": "tl.float8e4nv",
    "fp8e5": "tl.float8e5",
}
"""How Triton's types call themselves, and where they are found."""
TOLERANCES = {
    "": 1e-4,
    r"\bdot(_scaled)?\(": 1e-2,
    r"\b(float16|fp16)\b": 4e-3,
    r"\b(bfloat16|bf16)\b": 3e-2,
    r"\b(float8|fp8)": 0.25,
}
"""What says that a kernel computes with less than single precision (tf32, half …)."""
TORCH_TYPES = {
    "i1": "bool",
    **{f"{kind[0]}{n}": f"{kind}{n}" for kind in ("int", "uint") for n in (8, 16, 32, 64)},
    **{f"fp{n}": f"float{n}" for n in (16, 32, 64)},
    "bf16": "bfloat16",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
}
"""torch's types by the words of Triton's signatures."""
DEFAULTS = {"num_ctas": 1, "maxnreg": None, "enable_fp_fusion": True, "launch_pdl": False}
"""Options of a compilation that are left out of a launch where they are Triton's own."""
OPTIONS = ("num_warps", "num_stages", *DEFAULTS)
_DESCRIPTOR = re.compile(r"tensordesc<\w{1,40}\[([0-9, ]{1,200})\]")
STANDARD = words("argparse base64 inspect os statistics subprocess sys tempfile time zlib")


class RecordedCall(Struct, frozen=True, kw_only=True):
    """What a script repeats.

    ``kernel`` is the user's word. ``call`` and ``calls`` say which recorded call of how many it
    is, ``count`` how often it was made alike; None where what is launched was given.
    ``recorded_on`` is what it ran on.
    """

    kernel: str
    arguments: tuple[Argument, ...]
    shares: tuple[Share, ...] = ()
    call: int | None = None
    calls: int = 0
    count: int | None = None
    recorded_on: str = ""
    reference: CutSource | None = None

    @property
    def call_text(self) -> str:
        """`` as in call 1 of 3, which was made 5 times alike``."""
        text = "" if self.call is None else f" as in call {self.call} of {self.calls}"
        is_repeated = self.count is not None and self.count > 1
        return f"{text}, which was made {self.count} times alike" if is_repeated else text


class TritonLaunch(RecordedCall, frozen=True, kw_only=True):
    """A launch of a Triton kernel.

    ``config`` is the variant's, ``source_label`` says whose text the kernel is. ``inputs`` are
    arrays kept in the script, as (dtype, shape, base64 of the compressed bytes); ``kept_names``
    are those of them that the program's call had.
    """

    variant: str
    source: CutSource
    source_label: str
    grid: tuple[int, int, int]
    config: Mapping[str, object]
    check: str = "interpreter"
    inputs: Mapping[str, tuple[str, tuple[int, ...], str]] | None = None
    kept_names: tuple[str, ...] = ()


def triton_script(launch: TritonLaunch, fixed: Mapping[str, str]) -> str:
    """The script, with the ``fixed`` parts of repro_parts.toml.

    Raises ``UsageError`` with the argument that cannot be made again.
    """
    source = launch.source
    cut_sources = [source] if launch.reference is None else [source, launch.reference]
    future = sorted(set(chain.from_iterable(cut_source.future for cut_source in cut_sources)))
    # How far single precision may be off: by the precision that the kernel's text computes in.
    constexprs = " ".join(str(a.value) for a in launch.arguments if a.type == "constexpr")
    text = f"{source.text} {constexprs}"
    tolerance = max(far for word, far in TOLERANCES.items() if re.search(word, text))
    imports = {"import torch", "import triton", "import triton.language as tl"}
    imports.update(*(cut_source.imports for cut_source in cut_sources))
    if any(_DESCRIPTOR.match(a.type or "") for a in launch.arguments):
        imports.add("from triton.tools.tensor_descriptor import TensorDescriptor")
    checks = [c for c in CHECKS if c != "reference" or launch.reference is not None]
    inputs = [] if launch.inputs is None else [_stored_inputs(launch.inputs)]
    parts = [
        f"NAME = {python_literal(source.name)}",
        part(f"the kernel, from {launch.source_label}"),
        *kernel_texts(source),
        part("its arguments, and its launch"),
        _arguments(launch),
        _launch(launch),
        *reference_part(launch.reference, _COMMENT, fixed["check_reference"]),
        *_measures(inputs, tolerance, fixed),
        fixed["interpreter"].strip(),
        fixed["main"].strip()
        % {"choices": tuple(checks), "default": launch.check, "interpret": fixed["interpret"]},
        fixed["check"].strip() % {"check": _check(checks)},
        fixed["end"].strip(),
    ]
    return script_of(_head(launch), future, imports, parts)


def _measures(inputs: list[str], tolerance: float, fixed: Mapping[str, str]) -> list[str]:
    """Making arguments, comparing and timing; single precision may be ``tolerance`` off."""
    return [
        part("values of the arguments"),
        *inputs,
        fixed["inputs"].strip(),
        part("what it is compared with, and how long it takes"),
        fixed["compare"].strip() % {"float32": tolerance},
        fixed["time"].strip(),
    ]


def script_of(head: str, future: Iterable[str], imports: set[str], parts: Sequence[str]) -> str:
    """A script of its parts, with what they import of the standard library."""
    body = "\n\n\n".join(parts) + "\n"
    standard = {f"import {n}" for n in STANDARD if re.search(rf"\b{n}\.", body)}
    lines = [f"from __future__ import {', '.join(future)}", ""] if future else []
    third_party = sorted(imports - standard, key=lambda i: (i.startswith("from"), i))
    return "\n".join([head, "", *lines, *sorted(standard), "", *third_party, "", "", body])


def part(title: str) -> str:
    return f"# -- {harmless(title)} ".ljust(88, "-")


def harmless(name: str) -> str:
    """A name that a recording tells, as part of a comment: nothing ends the comment."""
    return "".join(c if c.isprintable() and c not in '\\"' else "?" for c in name)


def docstring(*lines: str) -> str:
    """The text at the head of a script; names come from a recording: none of them may end it."""
    return "\n".join([f'"""{harmless(lines[0])}', *map(harmless, lines[1:]), '"""'])


def _head(launch: TritonLaunch) -> str:
    on = f" Recorded on {launch.recorded_on}." if launch.recorded_on else ""
    outside = {o for c in (launch.source, launch.reference) if c is not None for o in c.outside}
    needs = f"It imports {', '.join(sorted(outside))}, which must be installed here."
    kept = f"As the program's call had them, but for --inputs: {', '.join(launch.kept_names)}."
    inputs = "Other inputs" if launch.kept_names else "Inputs"
    return docstring(
        f"{launch.kernel}, launched{launch.call_text}.",
        "",
        f"Variant {launch.variant}.{on} {inputs} are new ones of the recorded kind: of the same",
        "dtypes, shapes, strides, alignment and ranges of integers. It runs the kernel, checks",
        "what it wrote and takes the time. Exits with 0: it agrees, or nothing is compared; 1: it",
        "does not agree; 2: it could not be run, or not be checked.",
        *(["", kept] if launch.kept_names else []),
        *(["", needs] if outside else []),
    )


def kernel_texts(source: CutSource, jitted: bool = True) -> list[str]:
    """A function with what it needs; short statements, such as constants, stand together."""
    statements = list(source.statements)
    head = re.compile(rf"^\s*def {re.escape(source.name)}\(", re.MULTILINE)
    for n, text in enumerate(statements):
        if jitted and head.search(text) and not is_jitted(text):
            statements[n] = "@triton.jit\n" + text
    out = statements[:1]
    for previous, text in pairwise(statements):
        if "\n" in previous or "\n" in text:
            out.append(text)
        else:
            out[-1] += "\n" + text
    return out


def _stored_inputs(inputs: Mapping[str, tuple[str, tuple[int, ...], str]]) -> str:
    lines = [
        f'    "{name}": ({dtype!r}, {shape!r}, "{data}"),'
        for name, (dtype, shape, data) in inputs.items()
    ]
    return "\n".join(
        [
            "KEPT = {  # values of inputs: dtype, shape, and the bytes, compressed",
            *lines,
            "}",
            "",
            "",
            "def kept():",
            '    """The inputs that were given when this script was written."""',
            "    out = {}",
            "    for name, (dtype, shape, data) in KEPT.items():",
            "        raw = bytearray(zlib.decompress(base64.b64decode(data)))",
            "        flat = torch.frombuffer(raw, dtype=torch.uint8) if raw else torch.empty(0)",
            "        out[name] = flat.view(getattr(torch, dtype)).reshape(shape)",
            "    return out",
        ]
    )


# -- arguments ------------------------------------------------------------------------------------


def _arguments(launch: TritonLaunch) -> str:
    # Items of a tuple are recorded as name[0].
    groups = by_key(
        (re.sub(r"\A(\w{1,400})\[\d{1,4}\]\Z", r"\1", argument.name), argument)
        for argument in launch.arguments
    )
    shared = shared_names(launch)
    rows = []
    for name, items in groups.items():
        values = [_value(argument, launch, shared) for argument in items]
        text = values[0] if name == items[0].name else f"({', '.join(values)},)"
        rows.append(f"        {python_literal(name)}: {text},")
    given_values = "given" if launch.inputs is None else "{**kept(), **given}"
    return "\n".join(
        [
            "def make_inputs(device, seed, given):",
            '    """The kernel\'s arguments by name, and the tensors among them."""',
            f"    make = Inputs(device, seed, {given_values})",
            *shared_tensors(launch),
            "    return {",
            *rows,
            "    }, make.made",
        ]
    )


def _value(argument: Argument, launch: TritonLaunch, shared: Collection[str]) -> str:
    if argument.shape is not None and argument.dtype:
        text = (
            f"shared[{python_literal(argument.name)}]"
            if argument.name in shared
            else tensor_text(argument)
        )
        block = _DESCRIPTOR.match(argument.type or "")
        return text if block is None else f"TensorDescriptor.from_tensor({text}, [{block[1]}])"
    if argument.type == "constexpr":
        # Recordings hold a type or a function by its name alone.
        value = argument.value if argument.value is not None else launch.config.get(argument.name)
        if not isinstance(value, str) or argument.python_type == "str":
            return python_literal(value)
        named = value if is_function(argument, launch.source.text) else python_literal(value)
        return TL_TYPES.get(value, named)
    if (argument.type or "").startswith("*"):
        if argument.alignment is None and argument.value is None:
            return "None"
        raise _cannot_make(argument.name, "it was a bare address, and nobody knows of what size")
    if argument.value is None:
        raise _cannot_make(argument.name, "its value was not recorded")
    return _number(argument)


def _number(argument: Argument) -> str:
    return f"make.number({python_literal(argument.name)}, {python_literal(argument.value)})"


def shared_names(call: RecordedCall) -> set[str]:
    """Names of the arguments that share memory with others."""
    blocks = memory_blocks(call.arguments, call.shares)
    return {member.name for block in blocks for member in block.members}


def shared_tensors(call: RecordedCall) -> list[str]:
    """Lines that make the tensors which shared memory, as views of one allocation."""
    arguments = {argument.name: argument for argument in call.arguments}
    lines: list[str] = []
    for block in memory_blocks(call.arguments, call.shares):
        names = " and ".join(member.name for member in block.members)
        on_host = isinstance(call, ExtensionCall)
        device = _device(arguments[block.members[0].name]) if on_host else ""
        allocation = f"make.block({block.size_bytes}, {block.start_bytes}{device})"
        lines += [
            f"    block = {allocation}  # {harmless(names)} share memory, as in the recorded call"
        ]
        for member in block.members:
            within = f"{device}, within=block[{member.offset_bytes}:]"
            text = tensor_text(arguments[member.name], within)
            lines.append(f"    shared[{python_literal(member.name)}] = {text}")
    return ["    shared = {}", *lines] if lines else []


def _device(argument: Argument) -> str:
    return ', device="cpu"' if argument.device == "cpu" else ""


def tensor_text(argument: Argument, extra_words: str = "") -> str:
    """The expression that makes a tensor of a recorded layout again, with ``extra_words``."""
    shape, strides = argument.shape or (), argument.strides
    if strides is None or len(strides) != len(shape) or min((*shape, *strides), default=0) < 0:
        raise _cannot_make(argument.name, "its strides were not recorded")
    if not re.fullmatch(r"\w{1,40}", argument.dtype or ""):
        raise _cannot_make(argument.name, "torch has no such dtype")
    words = [
        python_literal(argument.name),
        f"torch.{argument.dtype}",
        *map(python_literal, (shape, strides)),
    ]
    if argument.alignment not in (None, 512):
        words.append(f"alignment={argument.alignment}")
    if argument.low is not None and argument.high is not None:
        words += [f"low={argument.low}", f"high={argument.high}"]
    return f"make.tensor({', '.join(words)}{extra_words})"


def is_function(argument: Argument, text: str) -> bool:
    """Whether a constexpr, by its name, is a function that is passed to the kernel."""
    if (
        argument.type != "constexpr"
        or not isinstance(argument.value, str)
        or not argument.value.isidentifier()
    ):
        return False
    if argument.python_type is not None:
        return argument.python_type in ("JITFunction", "function")
    return re.search(rf"\b{re.escape(argument.name)}\s*\(", text) is not None


def _cannot_make(name: str, reason: str) -> UsageError:
    return UsageError(
        f"{name} cannot be made again: {reason}",
        "--inputs FILE.npz gives arguments values by name.",
    )


# -- the launch -----------------------------------------------------------------------------------


def _launch(launch: TritonLaunch) -> str:
    options = {
        name: launch.config[name]
        for name in OPTIONS
        if name in launch.config and launch.config[name] != DEFAULTS.get(name, ...)
    }
    words = "".join(f", {name}={python_literal(value)}" for name, value in options.items())
    return "\n".join(
        [
            f"GRID = {launch.grid!r}",
            "",
            "",
            "def launch(arguments):",
            '    """Launch it once."""',
            f"    {launch.source.name}[GRID](**arguments{words})",
        ]
    )


def reference_part(reference: CutSource | None, comment: str, expected: str) -> list[str]:
    """The reference with its comparison; a comment without a reference."""
    if reference is None:
        return [comment]
    named = [] if reference.name == "reference" else [f"reference = {reference.name}"]
    texts = kernel_texts(reference, False)
    return [part("the reference"), *texts, *named, expected.strip()]


_COMMENT = """\
# A reference of your own: ptxview repro --check-with FILE.py:FUNCTION puts it here.
# It takes arguments by their names, and returns what the kernel is to have written:
# a tensor, several in the order of the arguments, or a dict by their names."""


def _check(checks: Sequence[str]) -> str:
    lines = [
        '    if args.check == "none":',
        '        print("nothing was compared")',
        "        return 0",
        "    wrote = {}",
    ]
    inside = "    "
    if "reference" in checks:
        inside = "        "
        lines += [
            '    if args.check == "reference":',
            "        expected = expected_by_reference(args, written)",
            '        compared = "the reference"',
            "    else:",
        ]
    return "\n".join([*lines, *(inside + line for line in _INTERPRETED.splitlines())])


_INTERPRETED = """\
told, why = interpreted(args)
if told is None:
    print(f"NOT CHECKED: Triton's interpreter cannot run it: {why}")
    return 2
expected, wrote = told["tensors"], told["wrote"]
some, every = told["programs"]
compared = f"Triton's interpreter, {some} of {every} programs"
"""


_PLACE = re.compile(r"(?:arg(?P<number>\d{1,4})|(?P<name>\w{1,400}))(?P<within>(?:\[\d{1,4}\])*)")
COMPILED = (".cu", ".cpp", ".cc", ".cxx", ".c")
"""Endings of files that are compiled; all others are included."""
_BY_TORCH = re.compile(
    r"-DTORCH_|-D_GLIBCXX_USE_CXX11_ABI|-DPYBIND11_|-D__CUDA_NO_|-fPIC$|--expt-relaxed-constexpr$|"
    r"-gencode|-arch|--generate-code|-shared$|-L|-lc10|-ltorch|-lcudart$|'-fPIC'$|-std=c\+\+"
)
"""Options that torch gives to every build, and will give again."""
FLAGS = {"cflags": "extra_cflags", "cuda_cflags": "extra_cuda_cflags", "ldflags": "extra_ldflags"}
"""The names of torch's arguments by those of a build file's variables."""
_WITH_VALUE = ("-isystem", "-ccbin", "-gencode", "--generate-code")
Places = dict[tuple[int, ...], str]


class ExtensionCall(RecordedCall, frozen=True, kw_only=True):
    """A call of an extension's function.

    ``sources`` are texts by file name; ``flags`` the build's own options for C++, CUDA and the
    linker.
    """

    module: str
    function: str
    sources: Mapping[str, str]
    flags: Mapping[str, tuple[str, ...]]


def build_flags(ninja: str) -> dict[str, tuple[str, ...]]:
    """The options of a build.ninja that are not torch's own: for C++, for CUDA, for the linker."""
    lines = (line.partition(" = ") for line in ninja.splitlines())
    return {
        FLAGS[name]: tuple(_options_not_of_torch(value))
        for name, equals, value in lines
        if name in FLAGS and equals
    }


def _options_not_of_torch(text: str) -> Iterable[str]:
    try:
        words = iter(shlex.split(text.replace("$$", "$")))
    except ValueError:
        return
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif word == "--compiler-options":
            if (value := next(words, "")).strip("'") != "-fPIC":
                yield from (word, value)
        elif not _BY_TORCH.match(word):
            yield word


def extension_script(call: ExtensionCall, fixed: Mapping[str, str]) -> str:
    """The script, with the ``fixed`` parts of repro_parts.toml.

    Raises ``UsageError`` with the argument that cannot be made again.
    """
    reference = call.reference
    imports = {"import torch", "from torch.utils.cpp_extension import load"}
    imports.update(reference.imports if reference is not None else ())
    checks = ("none",) if reference is None else ("reference", "none")
    parts = [
        f"NAME = {python_literal(f'{call.module}.{call.function}')}",
        part("the sources, and their build"),
        _sources(call),
        part("the arguments, and the call"),
        _call_arguments(call),
        *reference_part(reference, _NO_REFERENCE, _EXPECTED),
        *_measures([], TOLERANCES[""], fixed),
        fixed["main"].strip()
        % {"choices": checks, "default": checks[0], "interpret": fixed["parsed"]},
        fixed["no_check"].strip()
        if reference is None
        else fixed["check"].strip() % {"check": _CHECK},
        fixed["end"].strip(),
    ]
    future = () if reference is None else reference.future
    return script_of(_call_head(call), future, imports, parts)


def _call_head(call: ExtensionCall) -> str:
    on = f"Recorded on {call.recorded_on}. " if call.recorded_on else ""
    name = f"{call.module}.{call.function}"
    kernel = "" if call.kernel == name else f" It launches {call.kernel}."
    return docstring(
        f"{name}, called{call.call_text}.{kernel}",
        "",
        f"{on}Inputs are new ones of the recorded kind: of the same dtypes, shapes,",
        "strides, alignment and ranges of integers. It builds the extension, calls it, checks",
        "the results and takes the time. Exits with 0: it agrees, or nothing is compared; 1:",
        "it does not agree; 2: it could not be run.",
    )


def _sources(call: ExtensionCall) -> str:
    texts = []
    for name, text in call.sources.items():
        quote = "'''" if "'''" not in text and not text.endswith("'") else '"""'
        raw = quote not in text and "\\" not in text[-1:]
        body = f"r{quote}\n{text}{quote}" if raw and not text.endswith('"') else repr("\n" + text)
        texts.append(f"    {python_literal(name)}: {body},")
    compiled = [name for name in call.sources if name.endswith(COMPILED)]
    words = "".join(f"        {name}={list(flags)!r},\n" for name, flags in call.flags.items())
    return "\n".join(
        [
            "SOURCES = {",
            *texts,
            "}",
            "",
            "FOLDER = tempfile.TemporaryDirectory()",
            "",
            "",
            "def build():",
            '    """The extension, built in a new folder."""',
            "    for name, text in SOURCES.items():",
            '        with open(os.path.join(FOLDER.name, name), "w", encoding="utf-8") as file:',
            "            file.write(text[1:])",
            f"    compiled = [os.path.join(FOLDER.name, name) for name in {compiled!r}]",
            "    return load(",
            f"        name={python_literal(call.module)}, sources=compiled,",
            f"        build_directory=FOLDER.name, with_cuda=True,\n{words}    )",
        ]
    )


def _call_arguments(call: ExtensionCall) -> str:
    places: Places = {}
    named: dict[str, Places] = {}
    shared = shared_names(call)
    for argument in call.arguments:
        if (match := _PLACE.fullmatch(argument.name)) is None:
            raise UsageError(f"an argument of the name {argument.name} cannot be given")
        path = tuple(int(n) for n in re.findall(r"\[(\d+)\]", match["within"]))
        if match["number"] is not None:
            places[int(match["number"]), *path] = _argument_value(argument, shared)
        else:
            named.setdefault(match["name"], {})[path] = _argument_value(argument, shared)
    args = [f"        {text}," for text in _items(places)]
    keyword_lines = [
        f"        {python_literal(name)}: {_list(values)}," for name, values in named.items()
    ]
    return "\n".join(
        [
            "def make_inputs(device, seed, given):",
            '    """The call\'s arguments by place and by name, and the tensors among them."""',
            "    make = Inputs(device, seed, given)",
            *shared_tensors(call),
            "    by_place = [",
            *args,
            "    ]",
            "    by_name = {",
            *keyword_lines,
            "    }",
            "    return (by_place, by_name), make.made",
            "",
            "",
            "def launch(arguments):",
            '    """Call it once; the tensors that it returns, by names."""',
            "    global MODULE",
            "    MODULE = MODULE or build()",
            "    by_place, by_name = arguments",
            f"    result = MODULE.{call.function}(*by_place, **by_name)",
            "    several = result if isinstance(result, (tuple, list)) else (result,)",
            "    tensors = [one for one in several if isinstance(one, torch.Tensor)]",
            '    return {f"result {n}": tensor for n, tensor in enumerate(tensors)}',
            "",
            "",
            "MODULE = None",
        ]
    )


def _argument_value(argument: Argument, shared: Collection[str]) -> str:
    if argument.name in shared:
        return f"shared[{python_literal(argument.name)}]"
    if argument.shape is not None and argument.dtype:
        return tensor_text(argument, _device(argument))
    if isinstance(argument.value, str) and re.fullmatch(r"torch\.\w{1,40}", argument.value):
        return argument.value
    return _number(argument) if isinstance(argument.value, int | float) else repr(argument.value)


def _list(values: Places) -> str:
    """A value, or nested lists of values by their places; what is nowhere is an empty list."""
    return values[()] if () in values else f"[{', '.join(_items(values))}]"


def _items(values: Places) -> list[str]:
    size = max((path[0] for path in values), default=-1) + 1
    return [_list({p[1:]: v for p, v in values.items() if p[0] == n}) for n in range(size)]


_NO_REFERENCE = """\
# A reference of your own: ptxview repro --check-with FILE.py:FUNCTION puts it here.
# It takes the same arguments, and returns what is to come of them."""
_EXPECTED = '''
def expected_by_reference(args):
    """What the reference makes of the same inputs, by the names that launch gives."""
    (by_place, by_name), made = make_inputs("cuda", args.seed, arrays(args.inputs))
    result = reference(*by_place, **by_name)
    several = result if isinstance(result, (tuple, list)) else (result,)
    tensors = [one for one in several if isinstance(one, torch.Tensor)]
    return snapshot(made) | {f"result {n}": t.detach().cpu() for n, t in enumerate(tensors)}
'''


_CHECK = """\
    wrote = {}
    if args.check == "none":
        print("nothing was compared")
        return 0
    expected = expected_by_reference(args)
    compared = "the reference\""""
