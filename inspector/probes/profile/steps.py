"""Where a step of the program ends: at an optimizer's step, or where a named function is called."""

from __future__ import annotations

import threading
from typing import Any

from .. import hooks, private_names
from ..writer import problem

MARK = "_ptxview_step"


def install(session: Any) -> None:
    """Look for steps as the session wishes."""
    step = str(session.wish["step"])
    if step in ("auto", "optimizer"):
        optimizers = Optimizers(session)
        hooks.when_imported("torch.optim.optimizer", optimizers.attach)
        hooks.when_imported("torch._dynamo.eval_frame", optimizers.attach_dynamo)
    elif step != "none":
        function = Function(session, step)
        hooks.when_imported(step.partition(":")[0], function.attach)


class Calls:
    """Outermost calls of a function in the session's thread, but for those that are compiled."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.depth = 0

    def counts(self) -> bool:
        """Whether a call that begins is one that runs, and in the session's thread."""
        if threading.get_ident() != self.session.thread:
            return False
        torch = self.session.torch
        return torch is None or not torch.compiler.is_compiling()


class Optimizers(Calls):
    """Each step of the optimizer that steps first; others (a GAN has two) step beside it."""

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._first: int | None = None
        self._classes: list[Any] = []

    def attach(self, module: Any) -> None:
        """``torch.optim.optimizer``: each class's ``step`` is observed when one is made."""
        private_names.wrap(
            "torch.optim.optimizer:Optimizer._patch_step_function",
            lambda args, kwargs: type(args[0]),
            lambda kind, result, error: self._observe(kind),
        )

    def attach_dynamo(self, module: Any) -> None:
        """``torch._dynamo.eval_frame``: some versions unwrap ``step`` when Dynamo begins."""
        private_names.wrap(
            "torch._dynamo.eval_frame:TorchPatcher.patch", after=lambda *_: self._observe_again()
        )

    def _observe_again(self) -> None:
        for kind in list(self._classes):
            self._observe(kind)

    def _observe(self, kind: Any) -> None:
        step = kind.step
        if hasattr(step, MARK):
            return
        made = hooks.observed(step, self._before, self._after)
        setattr(made, MARK, True)
        # What unwraps it arrives at the function itself, as it would without this wrapper.
        made.__wrapped__ = getattr(step, "__wrapped__", step)
        kind.step = made
        if kind not in self._classes:
            self._classes.append(kind)

    def _before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        optimizer = args[0] if self.counts() else None
        if optimizer is not None:
            self.depth += 1
        return optimizer

    def _after(self, optimizer: Any, result: Any, error: BaseException | None) -> None:
        if optimizer is None:
            return
        self.depth -= 1
        if self._first is None:
            self._first = id(optimizer)
        if self.depth == 0 and id(optimizer) == self._first:
            self.session.boundary("optimizer", f"{type(optimizer).__name__}.step")


class Function(Calls):
    """Each call of a function or method of an imported module; replaced right after the import."""

    def __init__(self, session: Any, name: str) -> None:
        super().__init__(session)
        self._name = name

    def attach(self, module: Any) -> None:
        """Observe the function, before the module's importer can take it from there."""
        value = module
        for part in self._name.partition(":")[2].split("."):
            value = getattr(value, part, None)
        if not callable(value) or isinstance(value, type):
            problem("profile", f"--step {self._name}: the module has no such function or method")
            return
        private_names.wrap(self._name, self._before, self._after, inherited=True)

    def _before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if not self.counts():
            return False
        if self.depth == 0:
            self.session.boundary("function", self._name)
        self.depth += 1
        return True

    def _after(self, counted: bool, result: Any, error: BaseException | None) -> None:
        if not counted:
            return
        self.depth -= 1
        if self.depth == 0:
            self.session.returned()
