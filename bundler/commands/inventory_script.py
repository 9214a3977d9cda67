"""`bundle inventory-script`: the script that lists a Python environment of an isolated host."""

import click

from bundler.options import EPILOG
from manifests import inventory


@click.command(name="inventory-script", epilog=EPILOG)
def command() -> None:
    """Print the Python script that lists what an environment of the isolated host holds.

    \b
      bundle inventory-script >inventory.py                here
      /opt/torch/bin/python inventory.py >inventory.json   there, with the environment's own Python
      bundle create --overlay inventory.json …             here
    """  # noqa: D301 - click's mark for lines that are not wrapped
    click.echo(inventory.script_path().read_text("utf-8"), nl=False)
