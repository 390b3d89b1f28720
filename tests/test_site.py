"""The site is built without a warning and has what it promises; the examples of its gallery run."""

import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dssl
from dssl.cli.main import main
from dssl.pipeline.kinds import KINDS

REPOSITORY = Path(__file__).parents[1]
EXAMPLES = sorted((REPOSITORY / "docs" / "gallery").glob("plot_*.py"))
HAVE = REPOSITORY / "docs" / "have"  # the pages "I have ..."


@pytest.mark.parametrize("page", sorted(path.stem for path in HAVE.glob("*.md")))
def test_a_page_of_what_a_user_has_shows_problem_code_picture_result_and_pitfalls(page):
    text = (HAVE / f"{page}.md").read_text(encoding="utf-8")
    assert all(f"**{part}.**" in text for part in ("Problem", "Picture", "Result", "Pitfalls"))
    assert "```" in text
    (alternative,) = re.findall(rf"!\[(.*)\]\({page}\.png\)", text)
    assert len(alternative) > 40
    assert (HAVE / f"{page}.png").stat().st_size < 60_000


@pytest.mark.slow
def test_a_picture_is_drawn_from_the_code_of_its_page(tmp_path):
    code = f"import pictures, pathlib; pictures.draw('a-graph', pathlib.Path({str(tmp_path / 'a.png')!r}))"
    subprocess.run([sys.executable, "-c", code], cwd=HAVE, check=True, capture_output=True)
    drawn, shown = (plt.imread(path)[..., :3] for path in (tmp_path / "a.png", HAVE / "a-graph.png"))
    assert drawn.shape == shown.shape
    assert np.mean(np.abs(drawn - shown) > 0.1) < 0.05, "but for fonts and rounding it is the picture of the page"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_has_all_names_keys_and_commands(tmp_path):
    made = shutil.ignore_patterns("names", "gallery_of_examples")
    shutil.copytree(REPOSITORY / "docs", tmp_path / "docs", ignore=made)
    (tmp_path / "tests" / "benchmarks").mkdir(parents=True)
    for file in ("RESULTS.md", "curves.svg"):  # no links, from whose real places its references would start
        shutil.copy(REPOSITORY / "tests" / "benchmarks" / file, tmp_path / "tests" / "benchmarks")
    (tmp_path / "cluster").symlink_to(REPOSITORY / "cluster")
    built = subprocess.run([sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-D",
                            "plot_gallery=0", tmp_path / "docs", tmp_path / "html"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    reference = tmp_path / "html" / "reference"
    assert all((reference / "names" / f"dssl.{name}.html").is_file() for name in dssl.__all__)
    keys, commands = ((reference / f"{name}.html").read_text() for name in ("pipeline-file", "commands"))
    assert all(f">{kind}<" in keys for kind in KINDS)
    assert all(f"dssl {name}" in commands for name, command in main.commands.items() if not command.hidden)
    assert len(list((tmp_path / "html" / "gallery_of_examples").glob("plot_*.html"))) == len(EXAMPLES) >= 14
    texts = {page: page.read_text(encoding="utf-8") for page in (tmp_path / "html").rglob("*.html")
             if "_static" not in page.parts}  # which has templates of the theme
    anchors = {page: set(re.findall(r' id="([^"]+)"', text)) for page, text in texts.items()}
    for page, text in texts.items():
        dashed = re.findall(r"[\s(>\[]–[a-z]\w*", text)
        assert not dashed, f"{page.name} writes options with a dash: {dashed}"
        for link, anchor in re.findall(r'href="(?!https?:|mailto:|data:)([^"#?]*)[^"#]*#?([^"]*)"', text):
            target = (page.parent / link).resolve() if link else page
            assert target.exists(), f"{page.name} links {link}"
            assert not anchor or anchor in anchors.get(target, {anchor}), f"{page.name} links {link}#{anchor}"


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_of_the_gallery_runs_and_draws_a_picture(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("agg")
    plt.close("all")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=UserWarning)
        exec(compile(path.read_text(encoding="utf-8"), path, "exec"), {"__name__": "__main__"})
    assert len(plt.get_fignums()) == 1
    assert capsys.readouterr().out
    plt.close("all")
    text = path.read_text(encoding="utf-8")
    assert all(f"**{part}." in text for part in ("Problem", "Pitfall"))
