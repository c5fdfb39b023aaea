"""Python's own constructs in a kernel, with the meaning that Triton's compiler gives to them.

The interpreter runs a kernel as Python. There ``a and b`` is one of the two blocks, ``not a`` is
False and ``max(a, 0)`` is either; the compiled code computes each element. A kernel is rewritten
so that these call the methods of ``Constructs``, which follow ``visit_BoolOp``, ``visit_Compare``,
``visit_UnaryOp``, ``visit_IfExp`` and ``visit_For`` of Triton's code generator: what is known when
the kernel is compiled decides at once and what follows is not evaluated, the rest is computed.
"""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

NAME = "_ptxview_constructs"
MAKER = "_ptxview_make"
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le,
    "Gt": operator.gt, "GtE": operator.ge,
}  # fmt: skip


class KernelAssertion(AssertionError):
    """An assertion of the kernel's own that does not hold."""


class _Chain:
    """The operands of one ``and``, ``or`` or chained comparison, as far as they were evaluated."""

    def __init__(self, left: Any = None) -> None:
        self.left = left
        self.computed: list[Any] = []
        self.last: Any = None
        self.decided = False


class Constructs:
    """What rewritten kernels call; one for each process, since launches do not overlap."""

    def __init__(self) -> None:
        self.chains: list[_Chain] = []
        self.conditions: list[bool] = []

    def forget(self) -> None:
        """A launch begins: the last one may have ended within an expression."""
        self.chains.clear()
        self.conditions.clear()

    def begin(self, left: Any = None) -> None:
        self.chains.append(_Chain(left))

    def both(self, value: Any) -> bool:
        """One more operand of ``and``; False where the rest is not to be evaluated."""
        return self._more(value, False)

    def either(self, value: Any) -> bool:
        """One more operand of ``or``; False where the rest is not to be evaluated."""
        return self._more(value, True)

    def _more(self, value: Any, decides: bool) -> bool:
        chain = self.chains[-1]
        chain.last = value
        if _is_computed(value):
            chain.computed.append(value)
        elif bool(value) is decides:
            chain.decided = True
        return not chain.decided

    def compare(self, name: str, right: Any) -> bool:
        """One more comparison of a chain, with the operand before it."""
        chain = self.chains[-1]
        left, chain.left = chain.left, right
        if name in ("Is", "IsNot"):
            return self.both(self.same(left, right) is (name == "Is"))
        return self.both(COMPARISONS[name](left, right))

    def end(self, method: str) -> Any:
        """The chain's value: what decided it, or its computed operands, folded from the right."""
        chain = self.chains.pop()
        if chain.decided or not chain.computed:
            return chain.last
        result = chain.computed.pop()
        while chain.computed:
            result = getattr(chain.computed.pop(), method)(result)
        return result

    def same(self, left: Any, right: Any) -> bool:
        return _plain(left) is _plain(right)

    def negated(self, value: Any) -> Any:
        return value.__not__() if _is_computed(value) else not value

    def condition(self, value: Any) -> bool:
        """The condition of ``a if value else b``, before one of the two is evaluated."""
        computed = _is_computed(value)
        self.conditions.append(computed)
        return bool(value.handle.data.any()) if computed else bool(value)

    def chosen(self, value: Any) -> Any:
        """That one: both are tensors of one type where the condition was computed."""
        return _to_tensor(value) if self.conditions.pop() else value

    def loop(self, function: Any, *bounds: Any, **given: Any) -> Iterator[Any]:
        """``range`` and ``tl.range``: the loop's variable is a tensor, as in the compiled code."""
        import numpy as np
        import triton.language as tl
        from triton.runtime import interpreter

        kinds = [_to_tensor(_plain(bound)).dtype for bound in bounds]
        wide = [kind for kind in kinds if kind.int_bitwidth > 32]
        kind = wide[0] if wide else tl.int32
        if not wide and all(k == tl.uint32 for k in kinds):
            kind = tl.uint32
        form = interpreter._get_np_dtype(kind)
        for value in function(*map(_plain, bounds), **given):
            yield tl.tensor(interpreter.TensorHandle(np.array([value], form), kind), kind)

    def smallest(self, *values: Any) -> Any:
        return _extreme(min, "minimum", values)

    def largest(self, *values: Any) -> Any:
        return _extreme(max, "maximum", values)

    def claim(self, condition: Any, message: Any = "") -> None:
        """``assert`` in a kernel."""
        holds = condition.handle.data.all() if _is_computed(condition) else condition
        if not holds:
            raise KernelAssertion(str(_plain(message)))


def _is_computed(value: Any) -> bool:
    import triton.language as tl

    return isinstance(value, tl.tensor)


def _plain(value: Any) -> Any:
    import triton.language as tl

    return value.value if isinstance(value, tl.constexpr) else value


def _to_tensor(value: Any) -> Any:
    import triton.language as tl
    from triton.runtime import interpreter

    semantic = getattr(interpreter, "interpreter_semantic", None)
    if semantic is not None:  # Triton 3.4 and later
        return semantic.to_tensor(value)
    return tl.semantic.to_tensor(value, interpreter.interpreter_builder)


def _extreme(plain: Callable[..., Any], name: str, values: tuple[Any, ...]) -> Any:
    import triton.language as tl

    if not any(_is_computed(value) for value in values):
        return plain(*values)
    result = values[0]
    for value in values[1:]:
        result = getattr(tl, name)(result, value)
    return result


CONSTRUCTS = Constructs()


class _Rewriting(ast.NodeTransformer):
    """Replaces the constructs by calls; the interpreter's own rewriting comes after."""

    def __init__(self, then: Any) -> None:
        self.then = then

    def visit(self, node: ast.AST) -> Any:
        rewritten = super().visit(node)
        return self.then.visit(rewritten) if isinstance(node, ast.Module) else rewritten

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        arguments = node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            argument.annotation = None  # what it names may be gone, and nothing here asks
        node.returns = None
        return self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        both = isinstance(node.op, ast.And)
        operands = [_call("both" if both else "either", self.visit(v)) for v in node.values]
        return _chained(node, _call("begin"), operands, "logical_and" if both else "logical_or")

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        left, *others = [self.visit(value) for value in (node.left, *node.comparators)]
        names = [type(op).__name__ for op in node.ops]
        if len(names) > 1:
            steps = [
                _call("compare", ast.Constant(name), other)
                for name, other in zip(names, others, strict=True)
            ]
            return _chained(node, _call("begin", left), steps, "logical_and")
        if names[0] in ("Is", "IsNot"):
            same: ast.expr = _call("same", left, others[0])
            if names[0] == "IsNot":
                same = ast.UnaryOp(op=ast.Not(), operand=same)
            return ast.copy_location(same, node)
        return ast.copy_location(ast.Compare(left, node.ops, others), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return ast.copy_location(_call("negated", node.operand), node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        node.test = _call("condition", node.test)
        node.body = _call("chosen", node.body)
        node.orelse = _call("chosen", node.orelse)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        made = node.iter
        if isinstance(made, ast.Call) and ast.unparse(made.func).split(".")[-1] == "range":
            loop = _call("loop", made.func, *made.args)
            loop.keywords = made.keywords
            node.iter = loop
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self.generic_visit(node)
        claim = _call("claim", node.test, *([node.msg] if node.msg else []))
        return ast.copy_location(ast.Expr(claim), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        kind = ast.unparse(node.annotation).strip("'\"").split(".")[-1]
        if node.value is None or kind == "constexpr":
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def _call(method: str, *arguments: ast.expr) -> ast.Call:
    function = ast.Attribute(ast.Name(NAME, ast.Load()), method, ast.Load())
    return ast.Call(function, list(arguments), [])


def _chained(node: ast.expr, begin: ast.expr, steps: Sequence[ast.expr], method: str) -> ast.expr:
    """``(begin, step and step and …, end)[2]``: operands stay in the kernel's own scope."""
    steps_taken = ast.BoolOp(ast.And(), list(steps))
    parts: list[ast.expr] = [begin, steps_taken, _call("end", ast.Constant(method))]
    whole = ast.Subscript(ast.Tuple(parts, ast.Load()), ast.Constant(2), ast.Load())
    return ast.copy_location(whole, node)


def rewritten(interpreter: Any, fn: Any) -> Any:
    """The Python function of a kernel as the interpreter is to run it.

    Variables of the functions around it are bound with the values that they have now.
    """
    rewriter = interpreter.InterpretedFunction(fn).rewriter
    rewriter.ast_transformer = _Rewriting(rewriter.ast_transformer)

    def build(tree: ast.Module) -> Any:
        outside = dict(inspect.getclosurevars(fn).nonlocals)
        supplied = {"min": CONSTRUCTS.smallest, "max": CONSTRUCTS.largest, NAME: CONSTRUCTS}
        bound = {k: v for k, v in supplied.items() if k not in fn.__globals__} | outside
        (definition,) = tree.body
        assert isinstance(definition, ast.FunctionDef)
        maker = ast.parse(f"def {MAKER}({', '.join(bound)}): pass")
        (outer,) = maker.body
        assert isinstance(outer, ast.FunctionDef)
        outer.body = [definition, ast.Return(ast.Name(definition.name, ast.Load()))]
        made: dict[str, Any] = {}
        code = compile(ast.fix_missing_locations(maker), rewriter.filename, "exec")
        exec(code, fn.__globals__, made)
        return made[MAKER](**bound)

    rewriter._compile_and_exec = build
    return rewriter.rewrite_ast()
