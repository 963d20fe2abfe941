"""What stands in deploy/: checked as far as it goes without a container engine or a cluster."""

import configparser
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from orphanwatch.alerts.artifacts import ALERTMANAGER, RULES
from orphanwatch.alerts.artifacts import build as build_alerts
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_file import load_config

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose"
KUBERNETES = DEPLOY / "kubernetes"
OLDEST_KUBERNETES = "1.29"
# Kinds of the Prometheus operator and of kustomize: their schemas can't be had here.
WITHOUT_SCHEMA = {"ServiceMonitor", "PrometheusRule", "Kustomization"}


def run(*command: object, env: dict[str, str] | None = None) -> str:
    """Return what a program printed; it must succeed."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | (env or {}),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def manifests() -> Iterator[dict[str, Any]]:
    """Yield every Kubernetes object."""
    for file in sorted([*KUBERNETES.glob("*.yml"), *KUBERNETES.glob("generated/*.yml")]):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if "kind" in document:
                yield document


def manifest(kind: str) -> dict[str, Any]:
    """Return the one object of a kind."""
    (found,) = (document for document in manifests() if document["kind"] == kind)
    return found


def compose_config(monkeypatch: pytest.MonkeyPatch) -> Config:
    """Return the config of the compose file, its variable set."""
    monkeypatch.setenv("ORPHANWATCH_DATABASE_URL", "sqlite:///stack.db")
    return load_config(COMPOSE / "orphanwatch.yml")


@pytest.mark.parametrize("files", [("compose.yml",), ("compose.yml", "demo.yml")], ids=" ".join)
def test_compose_accepts_its_files(files: tuple[str, ...]) -> None:
    """Docker Compose's own parser takes them."""
    options = [word for file in files for word in ("--file", COMPOSE / file)]
    run("docker-compose", *options, "config", "--quiet")


def test_every_service_is_fenced_in() -> None:
    """No capability, no new privileges, a read-only root, and ports on this machine only."""
    services = yaml.safe_load((COMPOSE / "compose.yml").read_text(encoding="utf-8"))["services"]
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["read_only"] is True, name
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name


def test_prometheus_accepts_its_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the rules that the compose file generates; its scrape interval is the config's."""
    config = compose_config(monkeypatch)
    (tmp_path / RULES).write_text(build_alerts(config)[RULES], encoding="utf-8")
    text = (COMPOSE / "prometheus.yml").read_text(encoding="utf-8")
    moved = text.replace("/etc/orphanwatch/artifacts/alerts", str(tmp_path))
    assert moved != text
    (tmp_path / "prometheus.yml").write_text(moved, encoding="utf-8")
    assert "SUCCESS" in run("promtool", "check", "config", tmp_path / "prometheus.yml")
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert job["scrape_interval"] == f"{config.scrape_interval // 1_000_000}s"


def test_alertmanager_accepts_what_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The generated file is a whole config, which the compose file names as such."""
    file = tmp_path / ALERTMANAGER
    file.write_text(build_alerts(compose_config(monkeypatch))[ALERTMANAGER], encoding="utf-8")
    assert "SUCCESS" in run("amtool", "check-config", file)
    services = yaml.safe_load((COMPOSE / "compose.yml").read_text(encoding="utf-8"))["services"]
    assert any(word.endswith(ALERTMANAGER) for word in services["alertmanager"]["command"])


def test_grafana_finds_the_data_source_and_the_dashboards() -> None:
    """The provider looks where the artifacts are written, on the volume that Grafana mounts."""
    services = yaml.safe_load((COMPOSE / "compose.yml").read_text(encoding="utf-8"))["services"]
    provider = yaml.safe_load(
        (COMPOSE / "grafana/dashboards/orphanwatch.yml").read_text(encoding="utf-8")
    )["providers"][0]
    folder = Path(provider["options"]["path"]).relative_to("/etc/orphanwatch")
    assert f"--out {folder}" in services["artifacts"]["command"][0]
    assert "artifacts:/etc/orphanwatch:ro" in services["grafana"]["volumes"]
    source = yaml.safe_load(
        (COMPOSE / "grafana/datasources/prometheus.yml").read_text(encoding="utf-8")
    )["datasources"][0]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")


@pytest.mark.parametrize(
    "document",
    [each for each in manifests() if each["kind"] not in WITHOUT_SCHEMA],
    ids=lambda each: each["kind"],
)
@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, kubernetes_validate.latest_version()])
def test_kubernetes_accepts_its_objects(document: dict[str, Any], version: str) -> None:
    """By the published schemas, unknown fields refused."""
    assert kubernetes_validate.validate(document, version, strict=True)


def test_the_objects_find_each_other() -> None:
    """Labels, ports and config names agree, and the scrape interval is the config's."""
    deployment, service = manifest("Deployment"), manifest("Service")
    monitor = manifest("ServiceMonitor")
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    (port,) = service["spec"]["ports"]
    assert port["targetPort"] in {each["name"] for each in container["ports"]}
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] == port["name"]
    config = yaml.safe_load((KUBERNETES / "orphanwatch.yml").read_text(encoding="utf-8"))
    assert endpoint["interval"] == config["scrape_interval"]
    assert any(each["mountPath"] in config["state_file"] for each in container["volumeMounts"])


def test_the_pod_runs_without_root_on_a_read_only_file_system() -> None:
    """What the restricted pod security standard asks for."""
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert f"USER {pod['securityContext']['runAsUser']}:" in dockerfile()


def test_what_kustomize_names_is_there() -> None:
    """Each resource and each file of a ConfigMap; and no dashboard is left out."""
    kustomization = manifest("Kustomization")
    files = [file for each in kustomization["configMapGenerator"] for file in each["files"]]
    for file in [*kustomization["resources"], *files]:
        assert (KUBERNETES / file).is_file(), file
    written = {f"generated/{file.name}" for file in (KUBERNETES / "generated").glob("*.json")}
    assert written == set(files) - {"orphanwatch.yml"}


def test_the_generated_files_are_up_to_date(tmp_path: Path) -> None:
    """``make examples`` changes nothing here, and leaves nothing over."""
    run(DEPLOY / "write", Path(sys.executable).with_name("orphanwatch"), tmp_path)
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {file.name for file in (KUBERNETES / "generated").iterdir()}
    for name in names:
        kept = (KUBERNETES / "generated" / name).read_text(encoding="utf-8")
        assert kept == (tmp_path / name).read_text(encoding="utf-8"), "run make examples"


def test_the_rules_of_the_operator_are_rules(tmp_path: Path) -> None:
    """What the PrometheusRule holds passes promtool."""
    file = tmp_path / RULES
    file.write_text(yaml.safe_dump(manifest("PrometheusRule")["spec"]), encoding="utf-8")
    assert "SUCCESS" in run("promtool", "check", "rules", file)


def test_systemd_accepts_its_unit(tmp_path: Path) -> None:
    """It verifies, a program put in place of the installed one, and is fenced in well."""
    text = (DEPLOY / "systemd/orphanwatch.service").read_text(encoding="utf-8")
    unit = tmp_path / "orphanwatch.service"
    program = shutil.which("true")
    unit.write_text(text.replace("/opt/orphanwatch/bin/orphanwatch", str(program)))
    assert run("systemd-analyze", "verify", unit) == ""
    assert "OK" in run("systemd-analyze", "security", "--offline=yes", "--threshold=20", unit)


def dockerfile() -> str:
    """Return the Dockerfile's text."""
    return (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def test_the_image_gets_every_part_that_is_installed() -> None:
    """What setup.cfg packages is copied, and let through by .dockerignore."""
    declared = configparser.ConfigParser()
    declared.read(ROOT / "setup.cfg")
    parts = {line.split("=")[1].strip() for line in
             declared["options"]["package_dir"].strip().splitlines()}  # fmt: skip
    copied = set(re.findall(r"^COPY (\w+) /source/", dockerfile(), re.MULTILINE))
    allowed = set(re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert copied == parts
    assert parts <= allowed


def test_the_image_serves_as_the_deployment_does() -> None:
    """Same command, same port; and nothing runs as root."""
    (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["args"][0] == "serve"
    assert '"serve"' in dockerfile()
    assert f"EXPOSE {container['ports'][0]['containerPort']}" in dockerfile()
    assert dockerfile().rindex("\nUSER ") < dockerfile().rindex("\nENTRYPOINT ")
