"""The doctor of an installation: what its log says, weighed against what the host says."""

import json

from manifests.exitcodes import ExitCode
from tests.support import sickness
from tests.support.small import control, free_port, install


def standings(done):
    return {one["id"]: one["standing"] for one in json.loads(done.stdout)["findings"]}


def test_what_the_log_says_is_weighed_by_what_is_installed(small_bundle, prefix):
    words = ("--prefix", str(prefix), "--port", str(free_port()), "--no-start")
    assert install(small_bundle, *words).returncode == 0
    sound = control(prefix, "doctor")
    assert sound.returncode == ExitCode.OK, sound.stdout
    assert sound.stdout.startswith("no server is running\n")

    log, cases = prefix / "state/logs/server.log", sickness.by_rule()
    log.write_text(cases["machine-of-other-kind"][0].text)
    whole = control(prefix, "doctor", "--json")
    assert standings(whole)["machine-of-other-kind"] == "contradicted"
    assert whole.returncode == ExitCode.SERVER  # something failed, and not for that
    told = control(prefix, "doctor", "--all").stdout
    assert "does not agree: x86_64, made for x86_64" in told and "bundlectl support" in told

    log.write_text(cases["weights-missing"][0].text)
    assert standings(control(prefix, "doctor", "--json"))["weights-missing"] == "likely"

    (weights,) = (prefix / "models").rglob("*.safetensors")
    weights.rename(weights.with_suffix(".lost"))
    broken = control(prefix, "doctor")
    assert broken.returncode == ExitCode.INTEGRITY
    assert "1. weights-missing (confirmed)" in broken.stdout
    assert "agrees: " in broken.stdout and weights.name in broken.stdout
