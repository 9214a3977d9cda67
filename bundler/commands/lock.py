"""`bundle lock`: pin everything by digest."""

from dataclasses import replace
from pathlib import Path

import click

from bundler import create as creating
from bundler import lockdiff, locking, media, requirements
from bundler.create import Draft
from bundler.options import EPILOG, Settings, request, voice
from bundler.request import Request
from bundler.workshop import Workshop
from manifests import lock
from manifests.console import Console
from manifests.errors import IntegrityError
from manifests.lock import Lock
from wheelhouse.upgrade import check_packages


@click.command(name="lock", cls=Settings, epilog=EPILOG)
@request
@click.option(
    "--lock", type=Path, default=Path("bundle.lock"), show_default=True, help="File to write."
)
@click.option(
    "--upgrade-package",
    "packages",
    multiple=True,
    metavar="NAME[==VERSION]",
    help="Change this wheel of the lock that is there, and nothing else; may be repeated.",
)
@click.option(
    "--check", is_flag=True, help="Write nothing; status 1 where the lock is out of date."
)
@voice
def command(
    request: Request, workshop: Workshop, console: Console, packages: tuple[str, ...], check: bool
) -> None:
    """Pin everything by digest.

    Writes bundle.lock, which `bundle create --lock` follows, and its wheels as requirement files
    in pip-tools' form beside it.
    """
    target = request.lock or Path("bundle.lock")
    older = lock.load(target) if check or packages else None
    if older is not None:
        check_packages(packages, (*older.wheels, *older.runtime_wheels))
    if not check:
        media.check_output(target.parent)
    draft = creating.draft(replace(request, lock=None), workshop)
    for sentence in draft.sources.ignored:
        console.say(f"note: {sentence}")
    if packages:
        older = locking.follow_lock(draft.request, draft.choice, target)
    made = _make(draft, console, older if packages else None, packages)
    changes = lockdiff.changes(older, made) if older is not None else ()
    if check:
        _checked(made, target, changes, console)
        return
    locking.write_lock(made, target)
    files = requirements.write(made, target)
    record = {
        "lock": str(target),
        "sha256": made.digest(),
        "wheels": len(made.wheels),
        "requirements": [str(file) for file in files],
        "changes": list(changes),
        "risks": list(made.risks),
    }
    counts = {"model": len(made.models), "adapter": len(made.adapters)}
    told = [f"{n} {what}{'s' if n > 1 else ''}" for what, n in counts.items() if n]
    amount = f"{len(made.conda)} conda packages, {len(made.wheels)} wheels"
    text = f"{target}: {', '.join((amount, *told))}"
    risks = [f"note: can run code: {risk}" for risk in made.risks]
    console.result(record, "\n".join([*changes, *risks, text]))


def _make(draft: Draft, console: Console, older: Lock | None, packages: tuple[str, ...]) -> Lock:
    return locking.make_lock(
        draft.request, draft.choice, draft.sources, draft.workshop, console, older, packages
    )


def _checked(made: Lock, target: Path, changes: tuple[str, ...], console: Console) -> None:
    found = (*changes, *requirements.stale(made, target))
    if found:
        raise IntegrityError(
            f"{target} is out of date",
            findings=found,
            mend="make it again with `bundle lock`, and look at what changes",
        )
    console.result({"lock": str(target), "changes": []}, f"{target}: up to date")
