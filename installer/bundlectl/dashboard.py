"""The Grafana dashboard of an installation, made of the table of panels (dashboard.toml).

The document is the one that Grafana's "import" takes (schema version 39, Grafana 10 and 11): the
data source is asked for there.
"""

import hashlib
import json
import tomllib
from importlib import resources
from typing import Any

_SCHEMA = 39
_SOURCE = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
#: Grid units: a dashboard is 24 wide.
_WIDTH, _HEIGHT = 12, 8


def render(job: str, title: str) -> str:
    """The dashboard's JSON for what Prometheus scrapes under a job's name."""
    table = tomllib.loads((resources.files(__package__) / "dashboard.toml").read_text("utf-8"))
    chosen = f'{{job="{job}"}}'
    document = {
        "__inputs": [
            {
                "name": "DS_PROMETHEUS",
                "label": "Prometheus",
                "type": "datasource",
                "pluginId": "prometheus",
            }
        ],
        "__requires": [],
        "title": title,
        # The same installation's dashboard replaces itself when it is imported again.
        "uid": hashlib.sha256(title.encode(errors="surrogateescape")).hexdigest()[:16],
        "tags": ["vllm"],
        "schemaVersion": _SCHEMA,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "panels": [_panel(place, panel, chosen) for place, panel in enumerate(table["panels"])],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _panel(place: int, panel: dict[str, Any], chosen: str) -> dict[str, Any]:
    row, column = divmod(place, 24 // _WIDTH)
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": panel["title"],
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel["unit"], "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": expression.replace("{filter}", chosen),
                "legendFormat": legend,
            }
            for number, (legend, expression) in enumerate(panel["lines"].items())
        ],
    }
