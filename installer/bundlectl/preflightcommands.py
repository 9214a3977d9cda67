"""The command `preflight`: of a medium's bundle, of what is installed, or the table itself."""

from bundlectl import install as installing
from bundlectl import preflight as checking
from bundlectl import readiness
from bundlectl.call import Run
from bundlectl.checks import CHECKS
from bundlectl.process import KEEPER, Supervisor
from manifests.errors import UsageError
from manifests.exitcodes import ExitCode


def preflight(run: Run) -> int:
    """Compare what the bundle, or the installed release, needs with this host."""
    arguments = run.arguments
    if arguments.list:
        rows = [{"name": one.name, "level": one.level, "about": one.about} for one in CHECKS]
        run.console.result({"checks": rows}, checking.table())
        return ExitCode.OK
    if arguments.media is not None:
        report = installing.examine(run.media, run.layout, run.options(), run.next_medium)
        subject, findings = report.manifest.name, report.findings
    elif arguments.into_python:
        raise UsageError(
            "an installed release keeps the environment that it was put on",
            mend="leave --into-python away, or run it from a bundle's medium",
        )
    else:
        subject, findings = readiness.of_installed(
            run.layout,
            ignore=frozenset(arguments.ignore),
            port=arguments.port or 0,
            running=Supervisor(run.layout).status().running,
            held=Supervisor(run.layout, KEEPER).status().running,
        )
    record = {"subject": subject, "findings": [vars(finding) for finding in findings]}
    refusal = checking.refusal(findings)
    # One document: with the error's own record in it, but for its findings, which are lines.
    told = {**refusal.as_record(), **record} if refusal else record
    run.console.result(told, checking.report(findings, every=arguments.all))
    if refusal is None:
        return ExitCode.OK
    return refusal.exit_code if run.console.json else run.console.fail(refusal)
