"""The Grafana dashboard and the alert rules ask only for metrics, labels and values that the daemon really has."""

import json
import re
import shutil
import subprocess

import pytest

from harness import Daemon, limit, pipeline
from harness.daemon import ROOT

pytestmark = pytest.mark.plain

yaml = pytest.importorskip("yaml")
RULES = ROOT / "packaging/prometheus/framed.rules.yml"
DASHBOARD = ROOT / "packaging/grafana/framed.json"
OF_PROMETHEUS = {"up", "ALERTS"}
OF_SCRAPING = {"instance", "job", "alertname", "severity"}

needs_packaging = pytest.mark.skipif(not DASHBOARD.exists(), reason="packaging/ is not here")
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def expressions(node):
    """Every PromQL expression of a document, and every query of a dashboard's variable."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("expr", "definition") and isinstance(value, str):
                yield value
            else:
                yield from expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from expressions(value)


def samples(text):
    """{metric: {label: set of values}} of /metrics; of what only a GPU has there are heads alone without one."""
    found = {name: {} for name in re.findall(r"^# TYPE (framed_device_\w+) gauge", text, re.MULTILINE)}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
        values = found.setdefault(name, {})
        for label, value in re.findall(r'(\w+)="([^"]*)"', labels):
            values.setdefault(label, set()).add(value)
    return found


def check(expression, metrics):
    for name, selector in re.findall(r"\b(framed_\w+)(?:\{([^}]*)\})?", expression):
        assert name in metrics, f"there is no metric {name}: {expression}"
        for label, operator, value in re.findall(r'(\w+)(=~|!=|!~|=)"([^"]*)"', selector):
            if label in OF_SCRAPING or value.startswith("$"):
                continue
            assert label in metrics[name], f"{name} has no label {label}: {expression}"
            for wanted in value.split("|") if "~" in operator else [value]:
                assert wanted in metrics[name][label], f"no {name} has {label}={wanted}: {expression}"
    every_label = OF_SCRAPING | {"le"} | {label for labels in metrics.values() for label in labels}
    for labels in re.findall(r"\bby \(([^)]*)\)", expression):
        assert set(labels.split(", ")) <= every_label, expression


@needs_packaging
@pytest.mark.parametrize("document", [RULES, DASHBOARD], ids=lambda path: path.stem)
def test_only_real_metrics_are_asked_for(place, document):
    text = document.read_text()
    asked = list(expressions(json.loads(text) if document is DASHBOARD else yaml.safe_load(text)))
    assert len(asked) >= 9
    with Daemon(place, {"cam0": pipeline({"dtype": "uint8", "shape": [64]})}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(bytes(64))  # there is no age of a frame before the first one
            reader.read(64)
        daemon.account(came=1, emitted=1)
        metrics = samples(daemon.metrics())
        for expression in asked:
            assert "framed_" in expression or expression.split("{")[0] in OF_PROMETHEUS, expression
            check(expression, metrics)


NOT_SHOWN = {"framed_lanes", "framed_graph", "framed_kernel_copies", "framed_timed_one_in"}  # of the configuration, not of how it runs


@needs_packaging
def test_every_metric_is_shown_or_alerted_of(place):
    shown = set(re.findall(r"\bframed_\w+", DASHBOARD.read_text() + RULES.read_text()))
    with Daemon(place, {"cam0": pipeline({"dtype": "uint8", "shape": [64]})}) as daemon:
        there = {re.sub("_(bucket|sum|count)$", "", name) for name in samples(daemon.metrics()) if name.startswith("framed_")}
    assert there - {name.removesuffix("_bucket") for name in shown} == NOT_SHOWN


@needs_packaging
@needs_promtool
def test_promtool_takes_what_the_dashboard_asks(place):
    """As rules, with values in place of the dashboard's variables."""
    asked = [re.sub(r"\$\w+", lambda name: "5m" if name[0] == "$__rate_interval" else ".*", expression)
             for expression in expressions(json.loads(DASHBOARD.read_text())) if not expression.startswith("label_values")]
    rules = place / "rules.yml"
    rules.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": [
        {"record": f"shown:{number}", "expr": expression} for number, expression in enumerate(asked)]}]}))
    done = subprocess.run(["promtool", "check", "rules", str(rules)], text=True, capture_output=True, timeout=limit(30), check=False)
    assert done.returncode == 0 and f"{len(asked)} rules found" in done.stdout, done


@needs_packaging
@needs_promtool
@pytest.mark.parametrize("task, file", [("check", RULES), ("test", ROOT / "tests/packaging/framed.rules.test.yml")])
def test_promtool_takes_the_alert_rules(task, file):
    done = subprocess.run(["promtool", task, "rules", str(file)], text=True, capture_output=True, timeout=limit(30), check=False)
    assert done.returncode == 0 and "SUCCESS" in done.stdout, done
