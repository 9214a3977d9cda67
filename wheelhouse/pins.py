"""pip-compile, run for the target: from requirements to exact versions."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from manifests.errors import SourceError
from wheelhouse.sources import Sources, local_path
from wheelhouse.toolbox import Toolbox

#: Nothing in the output but NAME==VERSION; setuptools and pip are packages like any other.
_FLAGS = (
    "--verbose",  # or pip would not say what a conflict is caused by
    "--no-config",
    "--no-header",
    "--no-annotate",
    "--no-emit-index-url",
    "--no-emit-trusted-host",
    "--no-emit-find-links",
    "--no-emit-options",
    "--strip-extras",
    "--allow-unsafe",
    "--resolver=backtracking",
)
#: METADATA by ranges of a wheel, where the index does not offer it beside (PEP 658): otherwise pip
#: would fetch gigabytes to resolve, and nobody would keep them.
FAST = {"PIP_USE_FEATURE": "fast-deps"}
#: How the user's network is reached; pip runs without any other variable of theirs.
_NETWORK = (
    *("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"),
    *("NO_PROXY", "no_proxy"),
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)


class Unresolved(SourceError):
    """pip-compile found no set of versions; `findings` holds its own words."""


def compile_pins(
    requirements: Sequence[str],
    toolbox: Toolbox,
    sources: Sources,
    date: str,
    scratch: Path,
    *,
    constraints: Sequence[str] = (),
    kept: Mapping[str, Version] = MappingProxyType({}),
) -> dict[str, Version]:
    """Versions by normalised name, resolved by pip-tools under the target's interpreter.

    `constraints` bind without requiring anything; `kept` are versions of an earlier run, which
    stay wherever they can. Raises Unresolved with pip's essential lines.
    """
    wanted, pinned = scratch / "requirements.in", scratch / "requirements.txt"
    bounds = scratch / "constraints.txt"
    wanted.write_text(lines(requirements), "utf-8")
    bounds.write_text(lines(constraints), "utf-8")
    pinned.write_text(lines(f"{name}=={version}" for name, version in kept.items()), "utf-8")
    command = (
        *("-m", "piptools", "compile", str(wanted), "--output-file", str(pinned), *_FLAGS),
        *("--constraint", str(bounds), "--cache-dir", str(scratch / "pip-tools")),
    )
    environment = settings(sources, date, scratch)
    done = toolbox.run(*command, environment=environment | FAST)
    if done.returncode and not said(done.stdout + done.stderr):
        # No answer, but a server that refuses HEAD or answers ranges wrongly: without them.
        done = toolbox.run(*command, environment=environment)
    if done.returncode:
        output = done.stdout + done.stderr
        raise Unresolved(
            "pip-tools found no set of wheels for the requirements",
            findings=said(output) or tuple(output.strip().splitlines()[-1:]),
        )
    pins: dict[str, Version] = {}
    for line in pinned.read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        requirement = Requirement(line)
        (specifier,) = requirement.specifier
        pins[canonicalize_name(requirement.name)] = Version(specifier.version)
    return pins


def lines(lines: Iterable[str]) -> str:
    """Requirements as the text of a file."""
    return "".join(f"{line}\n" for line in lines)


def settings(sources: Sources, date: str, scratch: Path) -> dict[str, str]:
    """Settings for pip as variables: a command line, where secrets would show, is public."""
    netrc = Path(os.environ.get("NETRC") or Path(os.environ.get("HOME", "/"), ".netrc"))
    settings = {
        **{name: os.environ[name] for name in _NETWORK if name in os.environ},
        "NETRC": str(netrc.absolute()) if netrc.is_file() else "",
        "PIP_ONLY_BINARY": ":all:",
        "PIP_CACHE_DIR": str(scratch / "pip"),
        "PIP_FIND_LINKS": " ".join(map(_as_url, sources.find_links)),
        "PIP_UPLOADED_PRIOR_TO": date,
        "PIP_CERT": sources.cert,
        "PIP_CLIENT_CERT": sources.client_cert,
        "PIP_PROXY": sources.proxy,
        "PIP_TIMEOUT": str(int(sources.timeout)),
        "PIP_RETRIES": "3",
        **({"PIP_INDEX_URL": sources.index_url} if sources.index_url else {"PIP_NO_INDEX": "1"}),
    }
    return {name: value for name, value in settings.items() if value or name in _NETWORK}


def _as_url(place: str) -> str:
    """A folder as URL: pip splits this setting at white space, which a folder's name may hold."""
    path = local_path(place)
    return path.absolute().as_uri() if path else place


_LEVEL = re.compile(r"^(ERROR|WARNING): ")
_VERSIONS = re.compile(r" \(from versions: .*\)$")
#: How pip's own sentences about a failure begin or go on; the rest is log and traceback.
_SAID = re.compile(
    r"Could not find |The user requested |.+ depends on |.* does not provide upload-time"
    r"|The repository located at "
)


def said(output: str) -> tuple[str, ...]:
    """The sentences of pip's complaint, without log, traceback and the list of all versions."""
    lines = (_LEVEL.sub("", line.strip()) for line in output.splitlines())
    said = [_VERSIONS.sub("", line) for line in lines if _SAID.match(line)]
    return tuple(dict.fromkeys(said))[:12]
