"""Print what makes a shell complete commands, options, recordings and kernels.

In ~/.bashrc:    eval "$(ptxview completion bash)"
In ~/.zshrc:     eval "$(ptxview completion zsh)", after compinit
For fish:        ptxview completion fish > ~/.config/fish/completions/ptxview.fish
"""

from __future__ import annotations

import argparse

from inspector import printing
from inspector.errors import Exit, UsageError

SHELLS = ("bash", "zsh", "fish")

ZSH = """
_ptxview() {
    if [[ $PREFIX == \\~* ]]; then
        _files
    else
        _python_argcomplete "$@" || _files
    fi
}
compdef _ptxview ptxview
"""
"""zsh escapes a leading ~ in a completion that argcomplete offers, so it completes such a path
itself."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``completion``."""
    parser.add_argument("shell", nargs="?", choices=SHELLS, metavar="SHELL", help="bash, zsh, fish")


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Print the shell's function, which asks ptxview each time that the TAB key is pressed."""
    args = parser.parse_args(argv)
    if args.shell is None:
        raise UsageError(
            f"for which shell: {', '.join(SHELLS)}?",
            'Such as eval "$(ptxview completion bash)" in ~/.bashrc.',
        )
    from argcomplete.shell_integration import shellcode

    script = shellcode(["ptxview"], shell=args.shell)
    printing.lines((script + (ZSH if args.shell == "zsh" else "")).splitlines())
    return Exit.OK
