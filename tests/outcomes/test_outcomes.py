"""Every case of the table of inputs and outcomes comes out as it says, and the page is up to date."""

import re

import pytest

from ..figures import unrendered
from . import cases  # noqa: F401  (registers the cases)
from .table import CASES, PAGE, page

pytestmark = [pytest.mark.slow]  # 150 commands and fits
FOUND = {}


@pytest.fixture(scope="module", autouse=True)
def _figures():
    with unrendered():
        yield


@pytest.mark.filterwarnings("default:n_landmarks=500", "default:n_neighbors=50")  # a warning is what is due there
@pytest.mark.parametrize("item", CASES, ids=lambda item: re.sub(r"\W+", "-", f"{item.group}-{item.given}")[:90])
def test_outcome(item, tmp_path):
    outcome = item.run(tmp_path)
    FOUND[item] = outcome
    assert outcome.code == item.code, outcome.text
    assert item.words in outcome.text


def test_the_page_says_what_the_cases_say():
    if len(FOUND) < len(CASES):
        pytest.skip("only some of the cases ran")
    assert len(CASES) >= 40
    assert PAGE.read_text(encoding="utf-8") == page([(item, FOUND[item]) for item in CASES]), (
        "run python -m tests.outcomes")
