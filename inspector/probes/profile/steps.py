"""Where a step of the program ends: at an optimizer's step, or where a named function is called."""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Callable
from typing import Any

from .. import hooks, private_names
from ..writer import problem

MARK = "_ptxview_step"
# Before Python 3.11 code does not know in which class it stands.
_NAME = "co_qualname" if sys.version_info >= (3, 11) else "co_name"


def install(session: Any) -> None:
    """Look for steps as the session wishes."""
    step = str(session.wish["step"])
    if step in ("auto", "optimizer"):
        watch = Optimizers(session)
        hooks.when_imported("torch.optim.optimizer", watch.attach)
        hooks.when_imported("torch._dynamo.eval_frame", watch.attach_dynamo)
    elif step != "none":
        module, _, name = step.rpartition(":")
        Function(session, module or "__main__", name).install()


class Optimizers:
    """Each step of the optimizer that steps first; others (a GAN has two) step beside it."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._first: int | None = None
        self._deep = 0
        self._base: Any = None

    def attach(self, module: Any) -> None:
        """``torch.optim.optimizer``: each class's ``step`` is wrapped when one is made."""
        self._base = module.Optimizer

        def watching(original: Any) -> Any:
            @functools.wraps(original)
            def profile_hook_step(func: Any) -> Any:
                return self._watched(original(func), func)

            return profile_hook_step

        private_names.wrap("torch.optim.optimizer:Optimizer.profile_hook_step", watching)

    def attach_dynamo(self, module: Any) -> None:
        """``torch._dynamo.eval_frame``: some versions remove the wrapper of ``step`` again."""

        def patching(original: Any) -> Any:
            @functools.wraps(original)
            def patch() -> None:
                original()
                # It does its work once, and is called at each torch.compile.
                module.TorchPatcher.patch = staticmethod(original)
                try:
                    if self._base is not None:
                        self._again(self._base)
                except Exception as error:
                    problem("profile", error)

            return patch

        private_names.wrap("torch._dynamo.eval_frame:TorchPatcher.patch", patching)

    def _again(self, kind: Any) -> None:
        for subclass in kind.__subclasses__():
            step = vars(subclass).get("step")
            # A class of which there is no optimizer yet is wrapped when there is one.
            if step is not None and not hasattr(step, MARK) and getattr(step, "hooked", False):
                subclass.step = self._watched(step, step)
            self._again(subclass)

    def _watched(self, step: Any, inner: Any) -> Any:
        import torch

        compiling: Callable[[], bool] = torch.compiler.is_compiling

        @functools.wraps(step)
        def stepped(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if compiling():
                return step(optimizer, *args, **kwargs)
            self._deep += 1
            try:
                return step(optimizer, *args, **kwargs)
            finally:
                self._deep -= 1
                if self._deep == 0:
                    self._ended(optimizer)

        setattr(stepped, MARK, True)
        # Whatever unwraps it must arrive at the function itself, as without this wrapper.
        stepped.__wrapped__ = inner
        return stepped

    def _ended(self, optimizer: Any) -> None:
        if self._first is None:
            self._first = id(optimizer)
        if id(optimizer) == self._first:
            self._session.boundary("optimizer", f"{type(optimizer).__name__}.step")


class Function:
    """Each call of a function of the user's is a step; found when it is called for the first time.

    A script's own functions cannot be found by an import, and may have been given away under other
    names before they are called. Until the first call Python is traced, and slower; then the
    function itself, whoever holds it, is made to call one that counts.
    """

    def __init__(self, session: Any, module: str, name: str) -> None:
        self._session, self._module, self._name = session, module, name
        self._wanted = name if _NAME == "co_qualname" else name.rpartition(".")[2]
        self._deep = 0
        self._found = False

    def install(self) -> None:
        """Trace calls until the function is found."""
        sys.setprofile(self._seen)

    def _seen(self, frame: Any, event: str, _: Any) -> None:
        if event != "call" or self._found:
            return
        code = frame.f_code
        if getattr(code, _NAME) != self._wanted or frame.f_globals.get("__name__") != self._module:
            return
        self._found = True
        sys.setprofile(None)
        try:
            functions = [
                f
                for f in gc.get_referrers(code)
                if isinstance(f, types.FunctionType) and f.__code__ is code
            ]
            for function in functions:
                self._divert(function)
            if not functions:
                # The code that torch.compile made of it runs, under the name of another function.
                space = frame.f_globals
                space[self._name] = self._watched(space[self._name])
        except Exception as error:
            problem("profile", error)
        self._step()

    def _divert(self, function: types.FunctionType) -> None:
        """Replace a function's code by one that calls the original; the object stays the same."""
        inner = types.FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        inner.__kwdefaults__ = function.__kwdefaults__
        inner.__qualname__ = function.__qualname__
        watched = self._watched(inner)
        code: Any = _through.__code__
        names = ("co_freevars", "co_name", "co_qualname")
        function.__code__ = code.replace(
            co_consts=tuple(watched if c == _STANDS_FOR else c for c in code.co_consts),
            **{n: getattr(function.__code__, n) for n in names if hasattr(code, n)},
        )

    def _watched(self, original: Any) -> Any:
        import torch

        compiling: Callable[[], bool] = torch.compiler.is_compiling

        @functools.wraps(original)
        def stepped(*args: Any, **kwargs: Any) -> Any:
            if compiling():
                return original(*args, **kwargs)
            if self._deep == 0:
                self._step()
            self._deep += 1
            try:
                return original(*args, **kwargs)
            finally:
                self._deep -= 1
                if self._deep == 0:
                    self._session.returned()

        return stepped

    def _step(self) -> None:
        self._session.boundary("function", f"{self._module}:{self._name}")


_STANDS_FOR = 1.5e300


def _through(*args: Any, **kwargs: Any) -> Any:
    """The code of a diverted function; the number is replaced by the function that it calls."""
    function: Any = 1.5e300
    return function(*args, **kwargs)
