"""What has a shell complete the command line: click's own scripts, which ask the command line itself."""

import click
from click.shell_completion import get_completion_class

_PROGRAM = "tensor-reshape"
_VARIABLE = "_TENSOR_RESHAPE_COMPLETE"  # as click finds it by the program's name


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what has a shell complete commands.

    bash: eval "$(tensor-reshape completion bash)" in ~/.bashrc. zsh: the same with zsh in ~/.zshrc, below compinit.
    fish: tensor-reshape completion fish > ~/.config/fish/completions/tensor-reshape.fish
    """
    script = get_completion_class(shell)
    if script is not None:  # it is for each of the choices
        click.echo(script(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())
