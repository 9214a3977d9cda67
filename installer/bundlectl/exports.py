"""Files for other programs of the host: a proxy before the server, and what watches it. Pure."""

import json
import re
from dataclasses import dataclass
from importlib import resources
from string import Template

from bundlectl import dashboard
from bundlectl.config import ServeConfig
from bundlectl.layout import Layout
from bundlectl.process import Service
from bundlectl.units import STEM
from manifests.errors import UsageError

GRAFANA = "grafana"
#: What can be exported, and the template it is made of.
TEMPLATES = {
    "nginx": "nginx.conf",
    "haproxy": "haproxy.cfg",
    "prometheus": "prometheus.yml",
    "alerts": "alerts.yml",
}
KINDS = (*TEMPLATES, GRAFANA)
#: What nginx and certificates take for a host's name; "_" is nginx's for any.
_NAME = re.compile(r"_|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


class _Template(Template):
    """Proxies and Prometheus have `$` for themselves."""

    delimiter = "@"


@dataclass(frozen=True)
class Public:
    """How clients reach the proxy."""

    port: int = 443
    name: str = "_"  # of the host


def render(kind: str, layout: Layout, settings: ServeConfig, public: Public) -> str:
    """The text of one of KINDS for an installation.

    Raises UsageError where the name is none of a host, or the proxy would listen where the server
    does.
    """
    stem = f"{STEM}-{layout.instance}" if layout.instance else STEM
    if kind == GRAFANA:
        return dashboard.render(stem, f"vLLM: {layout.prefix} ({layout.called})")
    _check(settings, public)
    template = (resources.files(__package__) / "templates" / TEMPLATES[kind]).read_text("utf-8")
    return _Template(template).substitute(
        prefix=layout.prefix,
        quoted_prefix=json.dumps(str(layout.prefix)),
        stem=stem,
        zone=stem.replace("-", "_"),
        address=Service(settings.host, settings.port, "", "").url.removeprefix("http://"),
        listen=public.port,
        name=public.name,
    )


def _check(settings: ServeConfig, public: Public) -> None:
    if not _NAME.fullmatch(public.name):
        raise UsageError(
            f"{public.name!r} is not the name of a host", mend="for example: --name llm.example"
        )
    if public.port == settings.port:
        raise UsageError(
            f"the server itself listens on port {settings.port}",
            why="the proxy needs a port of its own",
            mend="choose another one with --listen",
        )
