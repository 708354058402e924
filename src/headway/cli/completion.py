"""`headway completion SHELL`: complete commands and options in bash, zsh and fish."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

EXAMPLES = """Examples:

headway completion bash > ~/.local/share/bash-completion/completions/headway

headway completion zsh > ~/.headway.zsh; echo "source ~/.headway.zsh" >> ~/.zshrc

headway completion fish > ~/.config/fish/completions/headway.fish
"""


class Shell(StrEnum):
    """A shell that can complete our commands."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("completion", epilog=EXAMPLES)(completion)


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the completion script of a shell.

    Save it where the shell looks for such scripts, and start a new shell. The script asks headway
    itself, so it stays right after an upgrade.
    """
    from typer._completion_shared import get_completion_script

    from headway.cli import COMPLETION

    print(get_completion_script(prog_name="headway", complete_var=COMPLETION, shell=shell))
