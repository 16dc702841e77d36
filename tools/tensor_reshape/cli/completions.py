"""Prints the shell completion scripts of click. For each completion, these scripts run `tensor-reshape`."""

import click
from click.shell_completion import get_completion_class

_PROGRAM = "tensor-reshape"
_VARIABLE = "_TENSOR_RESHAPE_COMPLETE"  # click derives the name of this variable from the name of the program


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands in a shell.

    bash: eval "$(tensor-reshape completion bash)" in ~/.bashrc. zsh: the same with zsh in ~/.zshrc, below compinit.
    fish: tensor-reshape completion fish > ~/.config/fish/completions/tensor-reshape.fish
    """
    script = get_completion_class(shell)
    if script is not None:  # click has a completion class for each of the allowed shells
        click.echo(script(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())
