"""Options of ``grace`` that are read before anything else is asked."""

import pytest
from click.testing import CliRunner

from orphanwatch.exporter.cli import orphanwatch


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(
            ["--selector", "a b"], "is no list of label matchers", id="a selector that is none"
        ),
        pytest.param(["--at", "nope"], "is no instant", id="an instant that is none"),
        pytest.param(["--quantile", "nan"], "is no number", id="a quantile that is none"),
    ],
)
def test_a_wrong_option_is_told_before_anybody_is_asked(options: list[str], said: str) -> None:
    """Exit code 2, with what is right; the server named is never asked."""
    outcome = CliRunner().invoke(
        orphanwatch, ["grace", "--prometheus.url", "http://127.0.0.1:1", *options]
    )
    assert outcome.exit_code == 2
    assert said in outcome.output
