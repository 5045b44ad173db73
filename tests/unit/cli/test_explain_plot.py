"""The picture of one token: what is drawn, and what is refused before anything runs."""

from __future__ import annotations

import sys
import types

import pytest
from toy_traces import toy_trace

from unspool.cli.explain_plot import check_plot, draw, picture_of
from unspool.errors import BadRequest


class Axes:
    """Takes down what is drawn on it."""

    def __init__(self):
        self.drawn, self.set, self.lines = [], {}, []

    def plot(self, x, y, **style):
        self.drawn.append((x, y, style))
        self.lines.append(types.SimpleNamespace(get_color=lambda: "C1"))

    def __getattr__(self, name):
        return lambda *values, **_: self.set.setdefault(name, values)


class Figure:
    def __init__(self, **_):
        self.axes = Axes()
        Figure.last = self

    def subplots(self):
        return self.axes

    def savefig(self, path, dpi):
        path.write_bytes(b"drawn")


@pytest.fixture
def fake_matplotlib(monkeypatch):
    figure = types.SimpleNamespace(Figure=Figure)
    monkeypatch.setitem(sys.modules, "matplotlib", types.SimpleNamespace(figure=figure))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", figure)


def test_a_candidate_s_curve_ends_where_it_was_cut():
    picture = picture_of(3, toy_trace())
    assert picture.steps == ("model", "temperature", "top_k", "top_p")
    assert picture.title == 'token 3: " the", 5 candidates → 2'
    first, second, third, fourth, _ = picture.curves
    assert (len(first.probs), first.removed_by) == (4, None)
    assert first.probs[0] == pytest.approx(0.4)
    assert first.probs[-1] == pytest.approx(0.64)
    assert (len(third.probs), third.removed_by) == (3, "top_p"), "alive until top_k has run"
    assert (len(fourth.probs), fourth.removed_by) == (2, "top_k")
    assert min(p for curve in picture.curves for p in curve.probs) > 0, "what is 0 has no place on a log axis"
    assert [curve.is_chosen for curve in picture.curves].count(True) == 1
    assert second.label == '"\\n" 30 % → 36 %'
    assert third.label == '"世" 20 % → cut by top_p'


def test_each_curve_is_drawn_and_a_cross_where_one_ends(fake_matplotlib, tmp_path):
    path = tmp_path / "p.svg"
    picture = picture_of(1, toy_trace())
    draw(picture, path)
    assert path.read_bytes() == b"drawn"
    drawn = Figure.last.axes.drawn
    curves = [style for _, _, style in drawn if style["marker"] == "o"]
    crosses = [(x, style["color"]) for x, _, style in drawn if style["marker"] == "x"]
    assert len(curves) == 5
    assert crosses == [(2, "C1"), (1, "C1"), (1, "C1")]
    assert [style["linewidth"] for style in curves].count(3) == 1
    assert any(r"\$x\$" in style["label"] for style in curves), "a dollar begins no formula"
    assert Figure.last.axes.set["set_yscale"] == ("log",)
    assert Figure.last.axes.set["set_xticks"][1] == picture.steps


def test_other_formats_and_missing_folders_are_refused(fake_matplotlib, tmp_path):
    with pytest.raises(BadRequest, match=r"--plot must name a \.png or \.svg file, got 'p\.pdf'"):
        check_plot("p.pdf")
    with pytest.raises(BadRequest, match="there is no folder"):
        check_plot(str(tmp_path / "none" / "p.png"))
    assert check_plot(str(tmp_path / "p.PNG")).name == "p.PNG"


def test_without_matplotlib_one_line_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(BadRequest, match=r"pip install 'matplotlib>=3.8'") as caught:
        check_plot(str(tmp_path / "p.png"))
    assert caught.value.code == "missing_extra"


@pytest.mark.parametrize(("name", "begins"), [("p.png", b"\x89PNG"), ("p.svg", b"<?xml")])
def test_a_picture_is_drawn(tmp_path, name, begins):
    pytest.importorskip("matplotlib")
    path = check_plot(str(tmp_path / name))
    draw(picture_of(1, toy_trace()), path)
    assert path.read_bytes().startswith(begins)
