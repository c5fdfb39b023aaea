"""The script of a call of an extension's function: its sources, their build, its call, a time."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from inspector.base.errors import UsageError
from inspector.base.model import Argument
from inspector.export.repro import support
from inspector.export.repro.python_source import CutSource, python_literal
from inspector.export.repro.script import (
    docstring,
    part,
    reference_part,
    script_of,
    tensor_text,
    which_call,
)

_PLACE = re.compile(r"(?:arg(?P<number>\d{1,4})|(?P<name>\w{1,400}))(?P<within>(?:\[\d{1,4}\])*)")
_INDEX = re.compile(r"\[(\d+)\]")
COMPILED = (".cu", ".cpp", ".cc", ".cxx", ".c")
"""Endings of files that are compiled; all others are included."""
_BY_TORCH = re.compile(
    r"-DTORCH_|-D_GLIBCXX_USE_CXX11_ABI|-DPYBIND11_|-D__CUDA_NO_|-fPIC$|--expt-relaxed-constexpr$|"
    r"-gencode|-arch|--generate-code|-shared$|-L|-lc10|-ltorch|-lcudart$|'-fPIC'$|-std=c\+\+"
)
"""Options that torch gives to every build, and will give again."""
_WITH_VALUE = ("-isystem", "-ccbin", "-gencode", "--generate-code")
Places = dict[tuple[int, ...], str]


@dataclass(frozen=True, slots=True)
class ExtensionCall:
    """What a script is made of.

    ``module`` is the extension's name, ``function`` what is called of it. ``sources`` are texts by
    file name; ``flags`` the build's own options for C++, CUDA and the linker. ``kernel`` is what
    was asked for.
    """

    kernel: str
    module: str
    function: str
    sources: Mapping[str, str]
    flags: Mapping[str, tuple[str, ...]]
    arguments: tuple[Argument, ...]
    call: int | None = None
    calls: int = 0
    count: int | None = None
    recorded_on: str = ""
    reference: CutSource | None = None


def own_flags(ninja: str) -> dict[str, tuple[str, ...]]:
    """The options of a build.ninja that are not torch's own: for C++, for CUDA, for the linker."""
    out: dict[str, tuple[str, ...]] = {}
    for line in ninja.splitlines():
        name, equals, value = line.partition(" = ")
        wanted = {
            "cflags": "extra_cflags",
            "cuda_cflags": "extra_cuda_cflags",
            "ldflags": "extra_ldflags",
        }.get(name)
        if equals and wanted is not None:
            out[wanted] = tuple(_own(value))
    return out


def _own(text: str) -> Iterable[str]:
    try:
        words = iter(shlex.split(text.replace("$$", "$")))
    except ValueError:
        return
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif word == "--compiler-options":
            value = next(words, "")
            if value.strip("'") != "-fPIC":
                yield from (word, value)
        elif not _BY_TORCH.match(word):
            yield word


def extension_script(call: ExtensionCall) -> str:
    """The script. Raises ``UsageError`` with the argument that cannot be made again."""
    reference = call.reference
    imports = {"import torch", "from torch.utils.cpp_extension import load"}
    imports |= set(reference.imports if reference is not None else ())
    future = reference.future if reference is not None else ()
    checks = ("none",) if reference is None else ("reference", "none")
    parts = [
        f"NAME = {python_literal(f'{call.module}.{call.function}')}",
        part("the sources, and their build"),
        _sources(call),
        part("the arguments, and the call"),
        _arguments(call),
        *reference_part(reference, _COMMENT, _EXPECTED),
        part("values of the arguments"),
        support.INPUTS.strip(),
        part("what it is compared with, and how long it takes"),
        support.COMPARE.strip() % {"float32": 1e-4},
        support.TIME.strip(),
        support.MAIN.strip()
        % {"choices": checks, "default": checks[0], "interpret": support.PARSED},
        support.NO_CHECK.strip()
        if reference is None
        else support.CHECK.strip() % {"check": _CHECK},
        support.END.strip(),
    ]
    return script_of(_head(call), future, imports, parts)


def _head(call: ExtensionCall) -> str:
    on = f"Recorded on {call.recorded_on}. " if call.recorded_on else ""
    name = f"{call.module}.{call.function}"
    kernel = "" if call.kernel == name else f" It launches {call.kernel}."
    return docstring(
        f"{name}, called{which_call(call.call, call.calls, call.count)}.{kernel}",
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


def _arguments(call: ExtensionCall) -> str:
    places: Places = {}
    named: dict[str, Places] = {}
    for one in call.arguments:
        match = _PLACE.fullmatch(one.name)
        if match is None:
            raise UsageError(f"an argument of the name {one.name} cannot be given")
        path = tuple(int(n) for n in _INDEX.findall(match["within"]))
        if match["number"] is not None:
            places[int(match["number"]), *path] = _value(one)
        else:
            named.setdefault(match["name"], {})[path] = _value(one)
    args = [f"        {text}," for text in _items(places)]
    given = [f"        {python_literal(name)}: {_list(of)}," for name, of in named.items()]
    return "\n".join(
        [
            "def make_inputs(device, seed, given):",
            '    """The call\'s arguments by place and by name, and the tensors among them."""',
            "    make = Inputs(device, seed, given)",
            "    by_place = [",
            *args,
            "    ]",
            "    by_name = {",
            *given,
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


def _value(one: Argument) -> str:
    if one.shape is not None and one.dtype:
        device = ', device="cpu"' if one.device == "cpu" else ""
        return tensor_text(one, device)
    if isinstance(one.value, str) and re.fullmatch(r"torch\.\w{1,40}", one.value):
        return one.value
    name = python_literal(one.name)
    number = isinstance(one.value, int | float)
    return f"make.number({name}, {python_literal(one.value)})" if number else repr(one.value)


def _list(values: Places) -> str:
    """A value, or nested lists of values by their places; what is nowhere is an empty list."""
    return values[()] if () in values else f"[{', '.join(_items(values))}]"


def _items(values: Places) -> list[str]:
    size = max((path[0] for path in values), default=-1) + 1
    return [_list({p[1:]: v for p, v in values.items() if p[0] == n}) for n in range(size)]


_COMMENT = """\
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
