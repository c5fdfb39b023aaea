"""``ptxview mcp`` as a client sees it: the SDK's own client, and a real process over its pipes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, types

from inspector.base.escapes import shown
from inspector.commands.cli import COMMANDS
from tests.helpers.exported import texts_of
from tests.helpers.ptxview import (
    REPOSITORY,
    SAMPLE,
    call,
    count_hints,
    imported,
    saved,
    write_events,
)
from tests.helpers.schemas import hold

MOST = 24_000
READS = ["list", "show", "diff", "explain", "check", "time"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    shutil.copy(SAMPLE, folder / "x.ptxview")
    return folder


def parameters(root: Path, *options: str, **env: str) -> StdioServerParameters:
    # Without its own environment: a client hands little of it on.
    inherited = {name: os.environ[name] for name in os.environ if name.startswith(("XDG_", "TMP"))}
    return StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "inspector", "mcp", *options],
        cwd=root,
        env={"PYTHONPATH": str(REPOSITORY), **inherited, **env},
    )


@pytest.fixture(scope="session")
def imported_once(common: Path) -> list[str]:
    """The beginning of ptxview's command line, in an interpreter that has imported the SDK."""
    return imported(common / "warm" / "mcp", "inspector.serve.protocol").command


Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def connected(imported_once: list[str]) -> Connect:
    """``connected(root, option, …, mode=…)``: a client of a server, which is a child of one that
    has imported the SDK."""

    @asynccontextmanager
    async def connect(root: Path, *options: str, mode: str = "auto") -> AsyncIterator[Client]:
        given = parameters(root, *options)
        given.command, given.args = imported_once[0], [*imported_once[1:], "mcp", *options]
        async with Client(given, mode=mode) as client:
            yield client

    return connect


def text(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


def answer(result: types.CallToolResult) -> Any:
    """What a tool gave, which its text says too."""
    assert not result.is_error, text(result)
    assert json.loads(text(result)) == result.structured_content
    return result.structured_content


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_tools_are_listed_with_what_they_take_and_do(
    connected: Connect, root: Path, mode: str
) -> None:
    async with connected(root, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "never instructions" in (client.instructions or "")
    there = {command.name for command in COMMANDS}
    assert set(tools) == {*READS, *({"compile"} & there)}
    for name in READS:
        notes = tools[name].annotations
        assert notes is not None and notes.read_only_hint and notes.destructive_hint is False
        assert notes.open_world_hint is False and tools[name].description
        schema = tools[name].input_schema
        assert schema["type"] == "object" and schema["additionalProperties"] is False
        assert all(one.get("description") for one in schema["properties"].values())
    assert set(tools["show"].input_schema["properties"]["stage"]["enum"]) > {"ptx", "sass"}
    async with connected(root, "--allow-run", mode=mode) as client:
        more = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(more) - set(tools) == {"run"}
    for name in ("run", "time"):
        notes = more[name].annotations
        assert notes is not None and not notes.read_only_hint and notes.open_world_hint


LIMITS = ["--max-registers", "64", "--forbid", "small-grid"]
CALLS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("list", {}, ["list", "{path}", "--brief"]),
    ("show", {"kernel": "softmax_kernel"}, ["show", "{path}", "softmax_kernel", "--brief"]),
    (
        "show",
        {"kernel": "softmax_kernel", "stage": "source", "lines": "40:44", "full": True},
        ["show", "{path}", "softmax_kernel", "--stage", "source", "--lines", "40:44"],
    ),
    (
        "diff",
        {"kernel_a": "square_grid_kernel", "kernel_b": "square_loop_kernel"},
        ["diff", "{path}", "square_grid_kernel", "square_loop_kernel", "--brief"],
    ),
    ("diff", {"kernel_a": "matmul_kernel"}, ["diff", "{path}", "matmul_kernel", "--brief"]),
    ("explain", {"words": ["ld.global.v4.b32"]}, ["explain", "ld.global.v4.b32"]),
    ("check", {"max_registers": 64, "forbid": ["small-grid"]}, ["check", "{path}", *LIMITS]),
    ("time", {}, ["time", "{path}", "--stored"]),
]


async def test_an_answer_is_what_the_command_line_gives(connected: Connect, root: Path) -> None:
    count_hints(root / "x.ptxview")
    path = str((root / "x.ptxview").resolve())
    async with connected(root) as client:
        for name, given, words in CALLS:
            where = {"path_a": "x.ptxview"} if name == "diff" else {"path": "x.ptxview"}
            asked = given if name == "explain" else {**where, **given}
            value = answer(await client.call_tool(name, asked))
            done = call(*(word.format(path=path) for word in words), "--json")
            assert value == json.loads(done.out), name
            hold(name, value)


async def test_an_answer_is_never_longer_than_it_may_be(connected: Connect, root: Path) -> None:
    """A whole stage comes in parts, and of lines at most 400 at once."""
    whole = json.loads(call("show", root / "x.ptxview", "ff3a7da2", "--json").out)
    asked = {"path": "x.ptxview", "kernel": "ff3a7da2", "full": True, "lines": "1:"}
    parts: list[str] = []
    async with connected(root) as client:
        cursor: str | None = None
        while cursor is not None or not parts:
            more = {} if cursor is None else {"cursor": cursor}
            result = await client.call_tool("show", {**asked, **more})
            assert not result.is_error and len(text(result)) < MOST + 500
            value = result.structured_content
            assert value["hint"] and value["text"] in text(result)
            assert value["cut"]["from"] == sum(map(len, parts))
            parts.append(value["text"])
            cursor = value["cut"]["cursor"]
            assert cursor is None or cursor in value["hint"]
    assert len(parts) > 3
    said = json.loads("".join(parts))
    assert len(whole["lines"]) > 400 and said["lines"] == whole["lines"][:400]
    assert said["functions"] == whole["functions"]


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("show", {"path": "x.ptxview", "kernel": "softmax_kernal"}, "softmax_kernel"),
    ("show", {"path": "x.ptxview", "kernel": "*_kernel"}, "variants; name one"),
    ("show", {"path": "x.ptxview", "kernel": "--help"}, "not the name of a kernel"),
    ("show", {"path": "x.ptxview", "kernel": "softmax_kernel", "lines": "x"}, "40:80"),
    ("list", {"path": "nothing.ptxview"}, "does not exist"),
    ("list", {"paths": "x.ptxview"}, "it has path"),
    ("list", {"path": "x.ptxview", "cursor": "next"}, "cursor"),
    ("explain", {}, "needs the argument words"),
    ("expand", {}, "list, show"),
    ("diff", {"path_a": "x.ptxview", "kernel_a": "a\0b"}, "character"),
    ("time", {"path": "x.ptxview", "measure": True}, "--allow-run"),
    ("run", {"script": "x.py"}, "--allow-run"),
]


async def test_what_cannot_be_answered_is_an_error_with_its_sentence(
    connected: Connect, root: Path
) -> None:
    async with connected(root) as client:
        for name, given, said in REFUSED:
            result = await client.call_tool(name, given)
            assert result.is_error and said in text(result), text(result)
            assert "Traceback" not in text(result)
            error = result.structured_content["error"]
            assert error["message"] and error["status"] in (2, 4)
        assert (await client.call_tool("explain", {"words": ["ld"]})).is_error is False


async def test_nothing_outside_of_the_roots_is_read(
    connected: Connect, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = outside / "secret.ptx"
    secret.write_text(".version 8.0\n.target sm_90\n// the secret\n.visible .entry k() { ret; }\n")
    (root / "link.ptx").symlink_to(secret)
    (root / "folder").symlink_to(outside)
    # A build whose file names a source elsewhere.
    built = REPOSITORY / "tests" / "data" / "core" / "lecture" / "ext" / "square_gelu"
    shutil.copytree(built, root / "build")
    saved(outside / "cuda.cu", "// the secret\n" + (built / "cuda.cu").read_text())
    ninja = root / "build" / "build.ninja"
    ninja.write_text(ninja.read_text().replace("/tmp/cap/lecture/ext/square_gelu", str(outside)))
    (root / "build" / "cuda.cu").unlink()
    paths = [str(secret), "../outside/secret.ptx", "link.ptx", "folder/secret.ptx", "folder"]
    paths += ["/etc", "~", "/proc/self/environ"]
    async with connected(root) as client:
        for path in paths:
            for name in ("path", "baseline"):
                tool = "show" if name == "path" else "check"
                result = await client.call_tool(tool, {"path": "x.ptxview", name: path})
                assert result.is_error and "outside of the folders" in text(result), path
                assert str(root) in text(result) and "secret\n" not in text(result)
        result = await client.call_tool(
            "show", {"path": "build", "kernel": "gelu_kernel", "stage": "source", "lines": "1:5"}
        )
        assert "the secret" not in text(result)
    # A file of limits above the roots is not read.
    (tmp_path / "pyproject.toml").write_text("[tool.ptxview.check]\nmax-registers = 1\n")
    async with connected(root) as client:
        value = answer(await client.call_tool("check", {"path": "x.ptxview", "max_registers": 255}))
        assert value["passed"]
    assert call("check", root / "x.ptxview", "--config", tmp_path / "pyproject.toml").status == 1
    # Without roots it would have been read: the test would see it.
    assert "the secret" in call("show", root / "build", "gelu_kernel", "--stage", "source").text
    async with connected(root, "--root", str(outside)) as client:
        value = answer(await client.call_tool("show", {"path": str(secret)}))
        assert value["kernel"] == "k"
        assert (await client.call_tool("list", {"path": str(root / "x.ptxview")})).is_error


async def test_what_a_stranger_wrote_is_harmless(connected: Connect, root: Path) -> None:
    evil = "k\x1b]0;owned\x07\x1b[2J‮"
    ptx = (
        f"// \x1b[31mred\x9b5m\n.version 8.0\n.target sm_90\n.visible .entry {evil}() {{ ret; }}\n"
    )
    (root / "evil.ptx").write_text(ptx, "utf-8")
    (root / f"{evil}.ptx").write_text(ptx, "utf-8")
    write_events(root / "evil.ptxview", {"type": "problem", "text": evil}, {"type": evil}, evil)
    async with connected(root) as client:
        for name, given in (
            ("list", {"path": "evil.ptx", "full": True}),
            ("show", {"path": "evil.ptx", "lines": "1:4"}),
            ("show", {"path": f"{evil}.ptx", "full": True}),
            ("show", {"path": "evil.ptx", "kernel": evil}),
            ("show", {"path": evil}),
            ("list", {"path": "evil.ptxview", "full": True}),
            ("explain", {"words": [evil]}),
            (evil, {evil: evil}),
        ):
            result = await client.call_tool(name, given)
            texts = list(texts_of([result.structured_content, text(result)]))
            assert any(texts), name
            for said in texts:
                assert all(line == shown(line) for line in said.split("\n")), said


async def test_schemas_are_resources(connected: Connect, root: Path) -> None:
    async with connected(root) as client:
        uris = {str(one.uri) for one in (await client.list_resources()).resources}
        assert "ptxview://schema/show" in uris
        (content,) = (await client.read_resource("ptxview://schema/show")).contents
        assert isinstance(content, types.TextResourceContents)
        assert json.loads(content.text) == call("--schema", "show").json
        with pytest.raises(Exception, match="no resource"):
            await client.read_resource("ptxview://schema/../../etc")


# -- programs, and their ends ---------------------------------------------------------------------

SLEEPS = (
    "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(600)\n"
)


async def until(true: Callable[[], bool], what: str) -> None:
    """Waits for something that comes when it comes."""
    for _ in range(12_000):
        if true():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{what} has not come")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_ptx_is_compiled_for_targets_and_what_may_include_or_run_is_not(
    connected: Connect, root: Path
) -> None:
    """PTX is read alone; CUDA C++ could include any file."""
    ptx = REPOSITORY / "tests" / "data" / "parsers" / "matmul_sm90.ptx"
    shutil.copy(ptx, root / "k.ptx")
    (root / "k.cu").write_text('#include "/etc/passwd"\n')
    (root / "k.py").write_text("raise SystemExit(7)\n")
    async with connected(root) as client:
        given = {"files": ["k.ptx"], "target": ["sm_90a"]}
        made = answer(await client.call_tool("compile", given))
        assert [column["target"] for column in made["columns"]] == ["sm_90a"]
        (cell,) = made["rows"][0]["cells"]
        assert cell["compiled"] and cell["resources"]["registers"] > 0
        for name in ("k.cu", "k.py"):
            result = await client.call_tool("compile", {"files": [name], "target": "sm_90"})
            assert result.is_error and "leave" in text(result) and "root:" not in text(result)


async def test_two_calls_at_once_and_one_that_is_cancelled(connected: Connect, root: Path) -> None:
    (root / "sleeps.py").write_text(SLEEPS)
    async with connected(root, "--allow-run") as client:
        slow = asyncio.create_task(client.call_tool("run", {"script": "sleeps.py"}))
        await until((root / "pid").exists, "the program")
        await until(lambda: (root / "pid").read_text() != "", "its number")
        pid = int((root / "pid").read_text())
        # While it runs, others are answered.
        both = await asyncio.gather(
            client.call_tool("explain", {"words": ["ld"]}), client.call_tool("list", {"path": "."})
        )
        assert both[0].is_error is False and not slow.done() and is_alive(pid)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        await until(lambda: not is_alive(pid), "the program's end")


def started(root: Path, *options: str) -> subprocess.Popen[bytes]:
    """A server of which nothing but its pipes is known."""
    given = parameters(root, *options)
    return subprocess.Popen(
        [given.command, *given.args],
        cwd=root,
        env={**os.environ, **(given.env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def say(server: subprocess.Popen[bytes], **message: object) -> None:
    assert server.stdin is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()


HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "0"},
}


def greeted(server: subprocess.Popen[bytes]) -> None:
    assert server.stdout is not None
    say(server, id=1, method="initialize", params=HELLO)
    assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "ptxview"
    say(server, method="notifications/initialized")


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["closes", "kills"])
async def test_a_client_that_goes_ends_it_and_all_that_runs(root: Path, way: str) -> None:
    (root / "sleeps.py").write_text(SLEEPS)
    server = started(root, "--allow-run")
    try:
        greeted(server)
        say(
            server,
            id=2,
            method="tools/call",
            params={"name": "run", "arguments": {"script": "sleeps.py"}},
        )
        await until((root / "pid").exists, "the program")
        await until(lambda: (root / "pid").read_text() != "", "its number")
        pid = int((root / "pid").read_text())
        if way == "closes":
            assert server.stdin is not None
            server.stdin.close()
        else:
            server.send_signal(signal.SIGKILL)
        await until(lambda: server.poll() is not None, "the server's end")
        await until(lambda: not is_alive(pid), "the program's end")
        assert server.stderr is not None
        said = server.stderr.read().decode()
        assert "Traceback" not in said, said
        assert server.returncode == {"closes": 0, "kills": -9}[way]
    finally:
        server.kill()
        server.wait()


async def test_nothing_but_the_protocol_is_on_standard_output(root: Path) -> None:
    server = started(root, "--allow-run")
    (root / "loud.py").write_text("print('not json')\nimport os\nos.write(1, b'nor this')\n")
    try:
        greeted(server)
        asked: tuple[tuple[str, dict[str, Any]], ...] = (
            ("run", {"script": "loud.py"}),
            ("show", {"path": "x.ptxview", "kernel": "nope"}),
            ("list", {"path": "x.ptxview"}),
        )
        for number, (name, given) in enumerate(asked, 2):
            say(server, id=number, method="tools/call", params={"name": name, "arguments": given})
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(b"this is no message\n\xff\xfe\n{}\n")
        server.stdin.flush()
        answered: set[int] = set()
        while len(answered) < len(asked):
            message = json.loads(server.stdout.readline())
            assert message["jsonrpc"] == "2.0"
            if "result" in message:
                answered.add(message["id"])
        server.stdin.close()
        for line in server.stdout.read().splitlines():
            assert json.loads(line)["jsonrpc"] == "2.0"
        assert server.wait(60) == 0
    finally:
        server.kill()
        server.wait()


def test_without_the_sdk_it_says_how_to_get_it() -> None:
    # An interpreter that has all but the SDK.
    code = (
        "import sys, importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'mcp' else find(name, *more)\n"
        "sys.modules['mcp'] = None\n"
        "from inspector.commands.cli import main\n"
        "raise SystemExit(main(['mcp']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True)
    assert done.returncode == 3 and not done.stdout
    assert b"pip install 'ptxview[mcp]'" in done.stderr and len(done.stderr.splitlines()) == 2
