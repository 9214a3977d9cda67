"""The commands of `bundle`, which loads each only when it is run."""

from click import Command, Context

from bundler.cli import bundle


def bundle_commands() -> dict[str, Command]:
    """All of them, by name."""
    context = Context(bundle)
    found = {name: bundle.get_command(context, name) for name in bundle.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}
