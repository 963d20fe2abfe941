"""Options of ``grace`` that are read before anything else is asked, and what comes next."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from test_grace_picture import findings, lognormal

from orphanwatch.exporter.cli import orphanwatch
from orphanwatch.exporter.grace.telling import Files, next_step


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(
            ["--selector", "a b"], "is no list of label matchers", id="a selector that is none"
        ),
        pytest.param(["--at", "nope"], "is no instant", id="an instant that is none"),
        pytest.param(["--quantile", "nan"], "is no number", id="a quantile that is none"),
        pytest.param(
            ["--valid-for", "9999999d"], "longer than any window", id="a validity beyond all dates"
        ),
        pytest.param(
            ["--valid-for", "9" * 400 + "d"], "longer than any window", id="and beyond all numbers"
        ),
    ],
)
def test_a_wrong_option_is_told_before_anybody_is_asked(options: list[str], said: str) -> None:
    """Exit code 2, with what is right; the server named is never asked."""
    outcome = CliRunner().invoke(
        orphanwatch, ["grace", "--prometheus.url", "http://127.0.0.1:1", *options]
    )
    assert outcome.exit_code == 2
    assert said in outcome.output


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that the command is called in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path.resolve()


@pytest.mark.parametrize(
    ("config", "read", "saved", "said"),
    [
        pytest.param("etc/ow.yml", None, "etc/g.yml", "{file: g.yml}", id="beside the config"),
        pytest.param("etc/ow.yml", None, "etc/m/g.yml", "{file: m/g.yml}", id="below it"),
        pytest.param("etc/ow.yml", None, "g.yml", "{file: HERE/g.yml}", id="elsewhere, in full"),
        pytest.param("", None, "g.yml", "{file: HERE/g.yml}", id="no config, in full"),
        pytest.param("etc/ow.yml", "etc/g.yml", "etc/new.yml", "{file: new.yml}", id="another"),
        pytest.param("etc/ow.yml", "etc/g.yml", "etc/g.yml", "", id="the one that it reads"),
    ],
)
def test_what_is_saved_is_named_as_the_config_has_to(
    config: str, read: str | None, saved: str, said: str, here: Path
) -> None:
    """A config's paths start at its own folder, wherever the command was called."""
    files = Files(Path(config) if config else None, Path(saved), Path(read) if read else None)
    told = next_step(findings(lognormal(1200)), files)
    named = said.replace("HERE", str(here))
    assert told.startswith(f"let the config read it, by grace: {named}; build" if said else "build")
