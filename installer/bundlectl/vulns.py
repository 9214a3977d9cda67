"""The command `vulns`: known vulnerabilities of what is installed, by a database that was carried.

The rule and the report are those of `bundle vulns`; files of models are not scanned here.
"""

import datetime

from bundlectl.call import Run
from manifests import lock, placement, regular, vulns, vulns_ignores, vulns_judge, vulns_packages
from manifests.bundle import LOCK_MEMBER, digest_of
from manifests.errors import Damage, IntegrityError, UsageError
from manifests.exitcodes import ExitCode
from manifests.vulns_judge import Question, Scan
from manifests.vulns_match import matches
from manifests.vulns_packages import Contents
from manifests.vulns_report import NOT_HERE
from manifests.vulns_text import render

#: Bytes of a lock.
_LIMIT = 64 << 20


def vulns_command(run: Run) -> int:
    """Tell what is known of the release in service, or of another; 2 from --fail-on on."""
    arguments = run.arguments
    today = vulns_judge.day(arguments.today) if arguments.today else _now()
    ignores = vulns_ignores.load(arguments.ignore) if arguments.ignore is not None else ()
    release = arguments.release or run.layout.current_release()
    if not release:
        raise UsageError("no release is in service", mend="name one: --release ID (see: releases)")
    known = vulns.load(arguments.database)
    question = Question(known, today, arguments.fail_on, ignores, arguments.unknown_as)
    question.check_age(arguments.max_age)
    report = vulns_judge.judge(_contents(run, release), question, matches, Scan(missing=NOT_HERE))
    run.console.result(report.as_record(), render(report, arguments.lang))
    return ExitCode.USAGE if report.over else ExitCode.OK


def _now() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def _contents(run: Run, release: str) -> Contents:
    """What a release holds by its lock, which is the one that its manifest names."""
    manifest, _ = placement.load_manifest(run.layout.prefix, release)
    path = run.layout.release(release) / LOCK_MEMBER
    try:
        data = regular.read(path, _LIMIT)
    except OSError as error:
        raise IntegrityError(f"{path}: {error.strerror}", mend=placement.REPAIR) from None
    if digest_of(data) != manifest.lock_sha256:
        raise Damage(str(path), manifest.lock_sha256, digest_of(data), mend=placement.REPAIR)
    parsed = lock.parse(data, str(path))
    return vulns_packages.of_lock(manifest.name, parsed, manifest.lock_sha256)
