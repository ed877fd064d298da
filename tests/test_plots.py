"""Figures and tables: labelled, described in words, and the same bytes each time."""

import base64
import html
import json
import re

import pytest

from pdlab.course import plots, show
from pdlab.course.evidence import LABELS, evidence, recorded
from pdlab.errors import BadInput

ALT = "Decode stays at 1 operation a byte while prefill reaches 512: the two phases differ 512-fold."


@pytest.fixture
def published(monkeypatch):
    """What show and show_table put on the page, instead of a notebook."""
    pages = []
    monkeypatch.setattr(show, "_publish", lambda page, plain: pages.append((page, plain)))
    return pages


def small_figure(**changes):
    options = dict(label="hypothetical", source="arithmetic", xlabel="tokens", ylabel="operations a byte")
    axes = plots.figure("Prefill works each byte harder than decode does", **(options | changes))
    plots.line(axes, [1, 2, 4], [1, 2, 4], "prefill")
    plots.line(axes, [1, 2, 4], [1, 1, 1], "decode")
    return axes


def test_alternative_text_reaches_the_alt_attribute(published):
    """The words given as alt are the img's alt attribute, quotes and all, and the plain twin."""
    show.show(small_figure(), alt=ALT + ' It is "large".')
    page, plain = published[0]
    assert html.unescape(re.search(r'alt="([^"]*)"', page)[1]) == ALT + ' It is "large".'
    assert ALT in plain and "hypothetical · arithmetic" in plain


@pytest.mark.parametrize("alt", ["", "   ", None, "too short", "A plot of the intensity of prefill and decode by batch"])
def test_a_figure_without_a_message_in_words_is_refused(published, alt):
    """No alt, a short one, or one that only names the kind of plot shows nothing."""
    with pytest.raises(BadInput):
        show.show(small_figure(), alt=alt)
    assert published == []


@pytest.mark.parametrize("label", [None, "", "real", "Measured", "estimate"])
def test_only_the_four_labels_are_evidence(label):
    """A missing or invented label is refused for figures and tables alike."""
    with pytest.raises(BadInput):
        small_figure(label=label)
    with pytest.raises(BadInput):
        show.show_table([[1]], ["a"], label=label, source="s", caption="c")


@pytest.mark.parametrize("label", LABELS)
def test_each_label_stands_on_the_table(published, label):
    """All four labels are accepted and shown with the source, in the page and in the twin."""
    show.show_table([["x", 1234567]], ["name", "bytes"], label=label, source="a source", caption="Sizes")
    assert all(f"{label} · a source" in side and "1,234,567" in side for side in published[0])


def test_a_figure_without_a_source_is_refused():
    """An empty source is no source."""
    with pytest.raises(BadInput):
        small_figure(source=" ")


def test_a_figure_from_elsewhere_is_refused(published):
    """A bare matplotlib figure has no label, so it cannot be shown."""
    from matplotlib.figure import Figure

    with pytest.raises(BadInput):
        show.show(Figure(), alt=ALT)


def test_the_same_figure_gives_the_same_bytes(published):
    """Two figures built alike are equal byte for byte: no dates, no random ids."""
    show.show(small_figure(), alt=ALT)
    show.show(small_figure(), alt=ALT)
    assert published[0] == published[1]
    svg = base64.b64decode(re.search(r"base64,([^\"]+)", published[0][0])[1]).decode()
    assert svg.count("<path") > 10 and "<dc:date>" not in svg


def test_rounding_hides_the_last_digit_of_a_processor():
    """A change in a coordinate's twelfth digit leaves the figure's bytes alone."""
    nudged = small_figure()
    for drawn in nudged.lines:
        drawn.set_ydata([y * (1 + 1e-13) for y in drawn.get_ydata()])
    for axes in (first := small_figure(), nudged):
        plots.finish(axes.figure)
    assert show.svg_bytes(first.figure) == show.svg_bytes(nudged.figure)


def test_log_axes_are_announced(published):
    """A log axis says so in its label, once."""
    axes = small_figure(xlog=True)
    show.show(axes, alt=ALT)
    show.show(axes, alt=ALT)
    assert axes.get_xlabel() == "tokens (log scale)" and axes.get_ylabel() == "operations a byte"


def test_log_axes_of_panels_are_announced_where_the_axis_is_named(published):
    """Of panels that share an axis, the outer one names it; the others stay bare."""
    axes = plots.figure("Two panels share one log axis here", label="hypothetical", source="s",
                        ylabel="ms", ylog=True, panels=(1, 2), sharey=True)
    show.show(axes[0], alt=ALT)
    assert [ax.get_ylabel() for ax in axes] == ["ms (log scale)", ""]


def test_series_differ_without_colour():
    """Eight series have eight colours, eight markers and no repeated pair of marker and dash."""
    looks = [plots.style(i) for i in range(8)]
    assert len({s["color"] for s in looks}) == len({s["marker"] for s in looks}) == 8


def test_direct_labels_do_not_overlap(published):
    """Names of lines that end at one place are moved off each other."""
    axes = plots.figure("Three lines end in the same place here", label="hypothetical", source="s")
    for name in ("first", "second", "third"):
        plots.line(axes, [0, 1], [0, 1], name)
    plots.finish(axes.figure)
    boxes = sorted((t.get_window_extent() for t in axes.pdlab_labels), key=lambda box: box.y0)
    assert len(boxes) == 3
    assert all(low.y1 <= high.y0 + 1 for low, high in zip(boxes, boxes[1:]))


def test_a_recorded_run_shows_when_and_where(tmp_path, monkeypatch):
    """Measured evidence of a run carries the date and machine of its provenance, and whether it is the course's own."""
    monkeypatch.setattr("pdlab.course.evidence.RUNS", tmp_path)
    run = tmp_path / "some-run"
    run.mkdir()
    (run / "provenance.json").write_text(json.dumps({"label": "measured", "date": "2026-11-30T01:00:00Z", "machine": "2 cores, no GPU"}))
    assert str(evidence("measured", "L2", run)) == "measured (recorded 2026-11-30 on 2 cores, no GPU) · L2"
    machine = {"cpu": "AMD EPYC", "cores": 2, "memory_gb": 24, "system": "Linux"}
    (run / "provenance.json").write_text(json.dumps({"label": "measured", "date": "2026-11-30", "machine": machine}))
    assert str(evidence("measured", "L2", run)) == "measured (recorded 2026-11-30 on 2 cores of AMD EPYC) · L2"
    monkeypatch.setattr("pdlab.course.evidence.RUNS", tmp_path / "elsewhere")
    assert str(evidence("measured", "L2", run)) == "measured (live, 2026-11-30 on 2 cores of AMD EPYC) · L2"


@pytest.mark.parametrize("stored", [None, "{", '{"label": "simulated"}', '{"label": "measured", "date": "2026-11-30"}'])
def test_a_run_that_cannot_vouch_is_refused(tmp_path, stored):
    """No provenance, a broken one, another label, or no machine: not shown as measured."""
    if stored is not None:
        (tmp_path / "provenance.json").write_text(stored)
    with pytest.raises(BadInput):
        evidence("measured", "L2", tmp_path)


def test_an_unknown_run_is_refused_by_name():
    """Asking for a recorded run that is not there names it."""
    with pytest.raises(BadInput, match="no-such-run"):
        recorded("no-such-run")


def test_tables_have_headers_and_a_plain_twin(published):
    """Headers are th with a scope, numbers stand right, text is escaped, and the twin holds every cell."""
    import pandas as pd

    frame = pd.DataFrame({"model <b>": ["one", "two"], "ms": [1.5, 27.21441]})
    show.show_table(frame, label="simulated", source="s", caption="Floors")
    page, plain = published[0]
    assert page.count('<th scope="col"') == 2 and "<caption" in page and "model &lt;b&gt;" in page
    assert re.search(r'<td style="text-align:right[^"]*">27.2144</td>', page)
    assert re.search(r'<td style="text-align:left[^"]*">one</td>', page)
    assert all(word in plain for word in ("model <b>", "one", "two", "1.5000", "27.2144", "Floors"))


def test_a_name_in_the_way_is_told(published):
    """A name that crosses the axis, leaves the card or covers another is named on the figure; others are not."""
    show.show(small_figure(), alt=ALT)
    assert "data-misplaced" not in published[0][0]
    axes = small_figure()
    plots.name_at(axes, 1.05, 2, "a name that runs over the axis", dx=-9)
    axes.figure.set_layout_engine("none")
    plots.name_at(axes, 4, 2, "a name that runs out at the right " * 3)
    show.show(axes, alt=ALT)
    told = re.search(r'data-misplaced="([^"]*)"', published[1][0])[1]
    assert "crosses the axis" in told and "leaves the card" in told
    close = small_figure()
    for dx in (9, 12):
        plots.name_at(close, 2, 2, "one name", dx=dx)
    plots.finish(close.figure)
    assert plots.misplaced(close.figure) == []
    close.set_xticks([1.9, 2, 2.1], ["100,000,000", "200,000,000", "300,000,000"])
    assert any("touch" in line for line in plots.misplaced(close.figure))
    close.pdlab_labels[-1].set_position(close.pdlab_labels[-2].get_position())
    assert any("covers" in line for line in plots.misplaced(close.figure))


@pytest.mark.parametrize("colour", plots.COLOURS)
def test_names_are_dark_enough_to_read(colour):
    """A series may have a pale colour; its name is written in one with 4.5 to 1 on the card, and pale words are told."""
    axes = small_figure()
    plots.name_at(axes, 2, 3, "a name", colour)
    plots.finish(axes.figure)
    assert not any("pale" in line for line in plots.misplaced(axes.figure))
    axes.text(2, 3.5, "words in a raw colour", color="#56B4E9")
    assert "'words in a raw colour' is too pale" in plots.misplaced(axes.figure)


def test_ticks_part_thousands():
    """A linear axis that reaches a thousand writes 2,000; a smaller one keeps its fractions."""
    axes = small_figure()
    axes.plot([0, 5000], [0, 0.5])
    plots.finish(axes.figure)
    assert "2,000" in [tick.get_text() for tick in axes.get_xticklabels()]
    assert all("," not in tick.get_text() for tick in axes.get_yticklabels())


@pytest.mark.parametrize(("column", "side"), [(["12", "", "1,300 ms"], "right"), (["3 of 40", "41 of 40"], "right"),
                                              (["1 / 2 / 3.5"], "right"), (["", ""], "left"), (["12", "none"], "left")])  # fmt: skip
def test_numbers_stand_right_beside_empty_cells(published, column, side):
    """A column of numbers, counts or rows of them stands right, whatever cells are empty; words stand left."""
    show.show_table([[cell] for cell in column], ["what"], label="simulated", source="s", caption="c")
    assert re.findall(r'<td style="text-align:(\w+)', published[0][0]) == [side] * len(column)


@pytest.mark.parametrize("words", [4, 9, 13, 22])
def test_a_title_fits_and_leaves_no_word_alone(words):
    """A long title is broken into lines that fit the card and are about equally long."""
    title = " ".join(("splitting", "of", "phases")[i % 3] for i in range(words))
    lines = plots._title_lines(title, 500)
    widths = [plots._title_width(line) for line in lines]
    assert " ".join(lines) == title and max(widths) <= 500
    assert len(lines) == len(plots._wrapped(title, 500)) and min(widths) > 0.6 * max(widths)


@pytest.mark.parametrize("headers", [["a", ""], ["a", " "], ["a", "a"]])
def test_every_column_has_a_name_of_its_own(headers):
    """A column without a name, or with another's, is refused."""
    with pytest.raises(BadInput):
        show.show_table([[1, 2]], headers, label="hypothetical", source="s", caption="c")


def test_short_cells_are_not_broken(published):
    """A range or a number stays on one line; a sentence may be broken."""
    show.show_table([["10.2 / 10.7 / 11.2", "a sentence that has more than just a few words"]], ["a", "b"],
                    label="hypothetical", source="s", caption="c")  # fmt: skip
    page = published[0][0]
    assert re.search(r"nowrap[^>]*>10\.2 / 10\.7 / 11\.2<", page) and not re.search(r"nowrap[^>]*>a sentence", page)


def test_rows_must_fit_the_headers():
    """A ragged row or an empty table is refused."""
    for rows in ([[1, 2], [3]], []):
        with pytest.raises(BadInput):
            show.show_table(rows, ["a", "b"], label="hypothetical", source="s", caption="c")


def test_strips_and_ecdfs_show_every_value():
    """A strip draws one point a value; an ECDF ends at a share of one; no values are refused."""
    axes = small_figure()
    before = len(axes.lines)
    plots.strip(axes, [1, 2, 2, 9], 0, "a")
    plots.strip(axes, [3], 1, "b", index=1)
    assert len(axes.lines[before].get_xdata()) == 4
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a", "b"]
    shares = small_figure()
    plots.ecdf(shares, [3, 1, 2], "c")
    assert list(shares.lines[-1].get_ydata())[-1] == 1
    with pytest.raises(BadInput):
        plots.ecdf(shares, [], "empty")
