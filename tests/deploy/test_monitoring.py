"""The dashboard and the alert rules in deploy/ ask for metrics and labels that nodes and servers really have."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.registry import Collector
from promql_parser import AggregateExpr, BinaryExpr, Call, Expr, VectorSelector

from hopline import Actor, Network, Node, Payload, handler
from hopline.capture.settings import CaptureSettings
from hopline.metrics import NodeCollector, RendezvousCollector
from hopline.rendezvous import RendezvousServer, RendezvousSettings
from tests.network.processes import free_addresses

DEPLOY = Path(__file__).parents[2] / "deploy"

# Prometheus adds these labels to every metric, and has a metric of its own.
ADDED = {"instance", "job"}
SELECTING = {"topk", "bottomk"}  # these keep the labels
OF_PROMETHEUS = {"up": ADDED}

Metrics = dict[str, set[str]]  # the labels, by metric


class Greet(Payload):
    name: str


class Greeting(Payload):
    text: str


class Greeter(Actor):
    @handler
    def greet(self, request: Greet) -> Greeting:
        return Greeting(request.name)


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Metrics:
    """Return all metrics of a node that captures and of a rendezvous server, as they are scraped."""
    return asyncio.run(asyncio.wait_for(_metrics(tmp_path_factory.mktemp("captures")), 60))


async def _metrics(captures: Path) -> Metrics:
    broadcast, unicast, partner = free_addresses(3)
    settings = RendezvousSettings(address=broadcast, unicast_address=unicast, partner_address=partner)
    async with RendezvousServer(settings) as server:
        node = Node(
            Greeter(),
            network=Network(rendezvous=[server.address]),
            capture=CaptureSettings(directory=str(captures)),
        )
        collector = NodeCollector(node)
        async with node:
            await node.hub.send(Greet("you"), callback=Greeting)
            return dict(OF_PROMETHEUS) | _scraped(collector) | _scraped(RendezvousCollector(server))


def _scraped(collector: Collector) -> Metrics:
    """Return the samples of a collector; a family without samples has the labels that it declares."""
    scraped: Metrics = {}
    for family in collector.collect():
        for sample in family.samples:
            scraped[sample.name] = {*sample.labels, *ADDED}
        if not family.samples:
            name = f"{family.name}_total" if family.type == "counter" else family.name
            scraped[name] = {*getattr(family, "_labelnames", ()), *ADDED}
    return scraped


# -- the queries -------------------------------------------------------------------------------------------------------


def parts(query: Expr) -> Iterator[Expr]:
    """Return a query and all that it is made of."""
    yield query
    for name in ("lhs", "rhs", "expr", "vector_selector", "param"):
        part = getattr(query, name, None)
        if part is not None and not isinstance(part, str | float):
            yield from parts(part)
    if isinstance(query, Call):
        for argument in query.args:
            yield from parts(argument)


def problems(text: str, metrics: Metrics) -> list[str]:
    """Return what is wrong with a query: it cannot be parsed, or asks for what does not exist."""
    try:
        query = promql_parser.parse(text)
    except ValueError as error:
        return [f"{text}: {error}"]
    found: list[str] = []
    labels: set[str] = set()
    for part in parts(query):
        if isinstance(part, VectorSelector):
            name = part.name or ""
            if name not in metrics:
                found.append(f"{text}: no metric {name!r}")
                continue
            labels |= metrics[name]
            found += [
                f"{text}: no label {matcher.name!r} on {name}"
                for matcher in part.matchers.matchers
                if matcher.name not in metrics[name]
            ]
    for part in parts(query):
        modifier = getattr(part, "modifier", None)
        if isinstance(part, AggregateExpr) and modifier is not None:
            found += [f"{text}: no label {label!r} to aggregate by" for label in modifier.labels if label not in labels]
        if isinstance(part, BinaryExpr) and modifier is not None and modifier.matching is not None:
            found += [
                f"{text}: no label {label!r} to match" for label in modifier.matching.labels if label not in labels
            ]
    return found


def test_the_check_finds_what_does_not_exist(metrics: Metrics) -> None:
    wrong = {
        "hopline_joind == 0": "no metric 'hopline_joind'",
        'rate(hopline_messages_total{outcme="overflow"}[5m])': "no label 'outcme'",
        "sum by (actr) (rate(hopline_handler_seconds_count[5m]))": "no label 'actr'",
        "sum by (instance) (hopline_joined": "",
        "rate(hopline_joined)": "",
    }
    for text, problem in wrong.items():
        found = problems(text, metrics)
        assert found, text
        assert problem in found[0]
    assert problems("histogram_quantile(0.9, sum by (le) (rate(hopline_handler_seconds_bucket[5m])))", metrics) == []


# -- the files ---------------------------------------------------------------------------------------------------------


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_metrics_that_exist_and_says_what_is_wrong(rule: dict[str, Any], metrics: Metrics) -> None:
    assert problems(rule["expr"], metrics) == []
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["summary"]
    remaining = _labels_of_result(promql_parser.parse(rule["expr"]), metrics)
    for text in rule["annotations"].values():
        for label in re.findall(r"\$labels\.(\w+)", text):
            assert label in remaining, f"{label} is not among the labels of the result"


def _labels_of_result(query: Expr, metrics: Metrics) -> set[str]:
    """Return the labels that the result of a query has, as far as it names them."""
    if isinstance(query, AggregateExpr) and str(query.op) not in SELECTING:
        return set(query.modifier.labels) if query.modifier is not None else set()
    if isinstance(query, VectorSelector):
        return metrics[query.name or ""]
    if isinstance(query, Call):
        return set().union(*(_labels_of_result(argument, metrics) for argument in query.args)) - {"le"}
    labels: set[str] = set()
    for name in ("lhs", "expr", "vector_selector"):
        part = getattr(query, name, None)
        if part is not None:
            labels |= _labels_of_result(part, metrics)
    return labels


def test_every_alert_has_a_name_of_its_own() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) > 10


def panels(document: dict[str, Any]) -> Iterable[dict[str, Any]]:
    return [panel for panel in document["panels"] if panel["type"] != "row"]


def test_the_dashboard_asks_for_metrics_that_exist(metrics: Metrics) -> None:
    document = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
    found = []
    for panel in panels(document):
        assert panel["title"]
        assert panel["targets"]
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "5m")
            found += problems(query, metrics)
            remaining = _labels_of_result(promql_parser.parse(query), metrics)
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert label in remaining, f"{panel['title']}: {label} in the legend"
    assert found == []
    for variable in document["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()  # type: ignore[union-attr]
            assert label in metrics[metric]


def test_the_dashboard_has_each_panel_once_and_none_over_another() -> None:
    document = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
    identities = [panel["id"] for panel in document["panels"]]
    assert len(identities) == len(set(identities))
    taken: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_prometheus_is_given_the_rules_that_are_there() -> None:
    document = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))
    for name in document["rule_files"]:
        assert (DEPLOY / name).is_file()
    jobs = [job["job_name"] for job in document["scrape_configs"]]
    assert jobs == ["hopline"]  # the alerts ask for this one
