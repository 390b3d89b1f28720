"""How the site is built: `python -m sphinx -W -b html docs FOLDER`."""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import reference_pages
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

import dssl

project, author, copyright = "dssl", "the dssl developers", "2026, the dssl developers"
version = release = dssl.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.viewcode", "numpydoc",
              "sphinx_copybutton", "sphinx_design", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["gallery", "gallery_of_examples/*.md5"]
nitpicky = False
smartquotes_action = "qe"  # quotes and ellipses, but not dashes: --json stays an option that can be copied
toc_object_entries_show_parents = "hide"  # with them a name is wider than the sidebar

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings have them
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery", "gallery_dirs": "gallery_of_examples", "filename_pattern": r"\.py$",
    "backreferences_dir": "gallery_of_examples/backreferences", "doc_module": ("dssl",),
    "reference_url": {"dssl": None}, "abort_on_example_error": True, "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey", "show_memory": False, "min_reported_time": 10,
    "write_computation_times": False}

# A warning of an example is shown without the path and the line of the code that gives it.
warnings.formatwarning = lambda message, category, *where, **line: f"{category.__name__}: {message}\n"

html_theme = "pydata_sphinx_theme"
html_title = "dssl"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["dssl.css"]
html_js_files = ["accessible.js"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left", "header_links_before_dropdown": 7, "show_prev_next": True, "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"], "footer_start": ["copyright"], "footer_end": [],
    "navbar_end": ["theme-switcher"]}
html_sidebars = {page: [] for page in (  # pages that no others are below
    "start", "guide", "how-it-works", "estimators", "report", "serve", "outcomes", "papers")}


def _point_to_pages(app: Sphinx, name: str, content: list[str]) -> None:
    """Point to pages of the site where the text, read as a file, points to files of the repository."""
    pages = {"../tests/benchmarks/RESULTS.md": "results.md", "gallery)": "gallery_of_examples/index.rst)"}
    for file, page in pages.items():
        content[0] = content[0].replace(f"]({file}", f"]({page}")


def setup(app: Sphinx) -> None:
    """Write the pages of keys and commands before the others are read."""
    app.add_lexer("crontab", TextLexer)
    app.connect("source-read", _point_to_pages)
    app.connect("builder-inited", lambda app: reference_pages.write(Path(app.srcdir) / "reference"))
