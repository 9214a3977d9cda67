"""`bundle schema`: the published forms of what this program writes for machines."""

import click

from bundler import schemas


@click.command(name="schema")
@click.argument("name", type=click.Choice(schemas.NAMES))
def command(name: str) -> None:
    """Print a JSON Schema: of `inspect --json`, `diff --json`, or the manifest bundle.json."""
    click.echo(schemas.text(name), nl=False)
