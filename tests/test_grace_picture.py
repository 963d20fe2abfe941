"""The picture of a measuring: what is drawn, and the one in the documentation."""

import os
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import numpy as np
import pytest
from documentation import DOCS
from graces import AT

from orphanwatch.exporter.grace.curve import Samples
from orphanwatch.exporter.grace.estimate import Findings, PoolSamples, Terms, pool_grace
from orphanwatch.exporter.grace.picture import picture_of
from orphanwatch.exporter.instants import SECOND, Micros, micros
from orphanwatch.exporter.measurement import MeasuredFrom

TERMS = Terms(0.99, 1.5, Micros(7 * 86400 * SECOND))
SVG = "{http://www.w3.org/2000/svg}"


def findings(
    settled: Sequence[int], open_ones: Sequence[int] = (), name: str = "overflow"
) -> Findings:
    """Return what is found of one pool, whose proposal is a second."""
    found = PoolSamples(
        samples=Samples([Micros(each) for each in settled], [Micros(each) for each in open_ones]),
        source=MeasuredFrom.STORES,
        settled=len(settled),
        open=len(open_ones),
    )
    pools = {name: pool_grace(found, TERMS)}
    return Findings(at=AT, terms=TERMS, pools=pools, in_force={name: micros(1)})


def lognormal(count: int) -> list[int]:
    """Return lengths of cancels, always the same ones."""
    at = (np.arange(count) + 0.5) / count
    # The inverse of a logistic curve: close to a log-normal one, and in every library the same.
    return [int(micros(0.4 * (part / (1 - part)) ** 0.25)) for part in at.tolist()]


def drawn(picture: str, kind: str) -> list[ET.Element]:
    """Return the elements of a class."""
    root = ET.fromstring(picture)  # noqa: S314  (of ours)
    return [each for each in root.iter() if kind in (each.get("class") or "").split()]


def test_the_picture_of_the_documentation() -> None:
    """1,200 settled and three that never stop; ``REWRITE_GOLDEN=1`` writes it anew."""
    picture = picture_of(findings(lognormal(1200), [3600 * SECOND] * 3))
    file = DOCS / "pictures" / "grace.svg"
    if os.environ.get("REWRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(picture, encoding="utf-8")
    assert picture == file.read_text(encoding="utf-8")


def test_what_is_measured_is_drawn_with_its_numbers() -> None:
    """Curve, band, quantile, and a line for estimate, bound and grace, in this order."""
    picture = picture_of(findings(lognormal(1200), [3600 * SECOND] * 3))
    [curve], [band] = drawn(picture, "curve"), drawn(picture, "band")
    assert len((curve.get("points") or "").split()) > 100
    assert len((band.get("points") or "").split()) > 200
    lines = [
        float((drawn(picture, kind)[0].get("d") or "M").split()[0][1:])
        for kind in ("estimate", "at-most", "grace")
    ]
    assert lines == sorted(lines)
    words = [each.text or "" for kind in ("estimate", "at-most", "grace")
             for each in drawn(picture, kind) if each.tag == f"{SVG}text"]  # fmt: skip
    assert [word.rpartition(" ")[0] for word in words] == ["estimate", "at most", "grace"]


@pytest.mark.parametrize(
    ("settled", "open_ones", "curves"),
    [
        pytest.param([], [], 0, id="no cancel at all"),
        pytest.param([], [90 * SECOND], 0, id="none that settled"),
        pytest.param([400_000], [], 1, id="one"),
        pytest.param([0] * 600, [], 1, id="all of them at once"),
        pytest.param([400_000] * 60, [90 * SECOND] * 40, 1, id="many that never stop"),
    ],
)
def test_little_can_be_drawn_too(settled: list[int], open_ones: list[int], curves: int) -> None:
    """A picture of few samples is whole, and says the proposal."""
    picture = picture_of(findings(settled, open_ones))
    assert len(drawn(picture, "curve")) == curves
    assert "nan" not in picture
    assert "inf" not in picture.replace("in force", "")


def test_a_pool_may_have_any_name() -> None:
    """It is text, and not part of the picture's own."""
    picture = picture_of(findings([], name="<script>&\"'"))
    assert "<script>" not in picture
    assert "&lt;script&gt;" in picture
