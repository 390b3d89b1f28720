"""The page of a real run in a real browser: light and dark, on a telephone and on a wide screen."""

import re

import pytest

from tests.report.browser import Page, a_page
from tests.report.examples import example_page, example_run

CONTRAST = """
(() => {
  const level = text => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b };
  const paper = own => { for (let it = own; it; it = it.parentElement) {
      const color = getComputedStyle(it).backgroundColor;
      if (!/rgba\\(.*, 0\\)|transparent/.test(color)) return color } return 'rgb(255, 255, 255)' };
  const seen = {};
  for (const own of document.querySelectorAll('p, td, th, h1, h2, h3, a, code, pre, figcaption, .state')) {
    if (!own.textContent.trim()) continue;
    const [a, b] = [level(getComputedStyle(own).color), level(paper(own))].sort((x, y) => y - x);
    const found = (a + 0.05) / (b + 0.05);
    if (found < 4.5) seen[own.tagName + '.' + own.className] = found }
  for (const own of document.querySelectorAll('figure svg text')) {
    if (own.closest('g') === null) continue;
    const fill = getComputedStyle(own).fill, back = level(paper(own.closest('figure')));
    const a = level(fill), found = (Math.max(a, back) + 0.05) / (Math.min(a, back) + 0.05);
    if (found < 3 && !own.closest('svg').getAttribute('aria-label').startsWith('Confusion'))
      seen['text ' + own.textContent] = found }
  return seen })()"""


@pytest.fixture(scope="module")
def browser():
    with a_page() as page:
        yield page


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The page of an imagined run with every drawing that a classification has."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(example_page(*example_run(4, landmark_graph=True)), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1000, 1600])
def test_nothing_is_cut_off_or_too_pale(browser: Page, report, width, dark):
    browser.show(report, width, dark=dark)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask(CONTRAST) == {}
    beyond = browser.ask(
        "[...document.querySelectorAll('figure svg')].filter(own => own.getBoundingClientRect().right > innerWidth + 1)"
        ".length")
    assert beyond == 0


@pytest.mark.slow
def test_the_page_is_dark_where_the_reader_wants_it_dark(browser: Page, report):
    colors = []
    for dark in (False, True):
        browser.show(report, 1000, dark=dark)
        paper, ink = (browser.ask(f"getComputedStyle(document.body).{name}") for name in ("backgroundColor", "color"))
        drawn = browser.ask("getComputedStyle(document.querySelector('figure svg text')).fill")
        assert drawn == ink or drawn != paper
        colors.append([sum(map(int, re.findall(r"\d+", text)[:3])) for text in (paper, ink)])
    (light_paper, light_ink), (dark_paper, dark_ink) = colors
    assert light_paper > 700 > 200 > dark_paper
    assert light_ink < dark_ink


@pytest.mark.slow
def test_text_can_be_read_on_a_telephone(browser: Page, report):
    """Text of drawings is 7 pixels or more high where they shrink, and that of the page 12."""
    browser.show(report, 390)
    smallest = browser.ask("Math.min(...[...document.querySelectorAll('figure svg text')].map(own => "
                        "parseFloat(getComputedStyle(own).fontSize) * "
                        "Math.hypot(own.getScreenCTM().a, own.getScreenCTM().b)))")
    assert smallest >= 7
    assert browser.ask("Math.min(...[...document.querySelectorAll('p, td')].map(own => "
                       "parseFloat(getComputedStyle(own).fontSize)))") >= 12


@pytest.mark.slow
def test_a_wide_screen_has_the_contents_beside_the_page(browser: Page, report):
    browser.show(report, 1600)
    right, left = (browser.ask(f"document.querySelector('{name}').getBoundingClientRect().{side}")
                   for name, side in (("nav", "right"), ("main", "left")))
    assert right <= left
    browser.show(report, 390)
    assert browser.ask("document.querySelector('nav').getBoundingClientRect().bottom <= "
                       "document.querySelector('main').getBoundingClientRect().top + 1")


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_the_contents_stay_in_view_and_open_what_they_point_at(browser: Page, report, width):
    browser.show(report, width)
    assert browser.ask("document.querySelector('#spec details').open") is False
    browser.ask("[...document.querySelectorAll('nav a')].find(own => own.hash === '#spec').click()")
    browser.call("Runtime.evaluate", expression="new Promise(done => setTimeout(done, 100))", awaitPromise=True)
    assert browser.ask("document.querySelector('#spec details').open") is True
    top = browser.ask("document.querySelector('nav').getBoundingClientRect().top")
    assert 0 <= top < 100
    assert browser.ask("scrollY") > 500


@pytest.mark.slow
def test_a_table_is_sorted_by_the_column_that_is_clicked(browser: Page, report):
    browser.show(report, 1280)
    column = "[...document.querySelectorAll('#stages tbody tr')].map(row => row.cells[{}].textContent.trim())"
    head = "[...document.querySelectorAll('#stages thead th')].find(own => own.textContent.trim() === '{}')"
    place = browser.ask(head.format("time") + ".cellIndex")
    before = browser.ask(column.format(place))
    seconds = [float(text.removesuffix(" s")) for text in before]
    for order in ("ascending", "descending"):
        browser.ask(head.format("time") + ".querySelector('button').click()")
        assert browser.ask(head.format("time") + ".getAttribute('aria-sort')") == order
        after = [float(text.removesuffix(" s")) for text in browser.ask(column.format(place))]
        assert after == sorted(seconds, reverse=order == "descending")


@pytest.mark.slow
def test_rows_without_a_value_come_last_in_either_order(browser: Page, report):
    browser.show(report, 1280)
    assert browser.ask("""(() => {
      const table = document.querySelector('#stages table'), head = table.tHead.rows[0].cells;
      const place = [...head].findIndex(own => own.textContent.trim() === 'time');
      table.tBodies[0].rows[0].cells[place].textContent = '–';
      return [1, 2].map(() => {
        head[place].querySelector('button').click();
        return table.tBodies[0].rows[table.tBodies[0].rows.length - 1].cells[place].textContent;
      });
    })()""") == ["–", "–"]


@pytest.mark.slow
def test_a_printer_gets_all_and_the_reader_the_page_as_it_was(browser: Page, report):
    browser.show(report, 1280)
    is_open = "[...document.querySelectorAll('details')].map(own => own.open)"
    before = browser.ask(is_open)
    assert not all(before)
    browser.ask("dispatchEvent(new Event('beforeprint'))")
    assert all(browser.ask(is_open))
    browser.ask("dispatchEvent(new Event('afterprint'))")
    assert browser.ask(is_open) == before


@pytest.mark.slow
def test_numbers_stay_on_the_line_of_their_sign(browser: Page, report):
    browser.show(report, 390)
    assert browser.ask("/\\d %|p [=<] \\d/.test([...document.querySelectorAll('p, td')].map(own => "
                       "own.textContent).join('|'))") is False


@pytest.mark.slow
def test_the_first_picture_is_on_the_first_screen(browser: Page, report):
    browser.show(report, 1280)
    assert browser.ask("document.querySelector('figure svg').getBoundingClientRect().top") < 900
    browser.show(report, 390, height=844)
    assert browser.ask("document.querySelector('figure svg').getBoundingClientRect().top") < 844


@pytest.mark.slow
@pytest.mark.parametrize(("width", "medium"), [(1280, "screen"), (718, "print")])  # of A4 paper
def test_each_table_shows_all_of_its_columns_on_a_wide_screen_and_on_paper(browser: Page, tmp_path, width, medium):
    result, facts = example_run(4)
    scores = {"balanced_accuracy": 0.9, "f1_macro": 0.9, "roc_auc": 0.987, "log_loss": 0.147}
    ends = {f"{name}_interval": [value - 0.0123, value + 0.0123] for name, value in scores.items()}
    for each in (result["metrics"], *result["baselines"].values()):
        each |= scores | ends | {"rmse": 0.474}
    path = tmp_path / "report.html"
    path.write_text(example_page(result, facts), encoding="utf-8")
    browser.show(path, width)
    browser.call("Emulation.setEmulatedMedia", media=medium)
    browser.ask("document.querySelectorAll('details').forEach(fold => { fold.open = true })")
    cut = browser.ask("[...document.querySelectorAll('.wide')].filter(own => own.scrollWidth > own.clientWidth + 1)"
                      ".map(own => own.textContent.trim().slice(0, 40))")
    browser.call("Emulation.setEmulatedMedia", media="")
    assert cut == []
