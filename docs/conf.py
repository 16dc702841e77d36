"""How Sphinx makes the site of these pages: `scripts/site`, and with warnings as errors `scripts/check`.

Both first run `python -m verification.document`, which writes the tables that reference pages include.
The pages are plain Markdown, which a forge shows as well. `extensions/` adds everything that only Sphinx needs, so that
the pages do not contain it.
"""

import sys
from importlib.metadata import version as read_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "tensor-reshape"
version = release = read_version("tensor-reshape")
author = "the authors of tensor-reshape"
project_copyright = f"{author}, Apache-2.0"

extensions = [
    "myst_parser",
    "sphinx_copybutton",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "navigation",
    "public_names",
    "accessibility",
    "tables",
    "descriptions",
]
nitpicky = True

myst_heading_anchors = 4  # the anchors that a forge makes of headings

# With typographic quotes and dashes, a copied option such as --explain or a copied message would be wrong.
smartquotes = False

default_role = "code"  # what docstrings have in backticks
autosummary_generate = False  # the tables of names link to pages that are written by hand
autodoc_member_order = "bysource"
autoclass_content = "both"
autodoc_typehints_format = "short"
maximum_signature_line_length = 90
napoleon_use_ivar = True
# Signatures name types of other packages, and some of ours that users see and never write: those lead nowhere.
nitpick_ignore_regex = [("py:.*", ".*")]

pygments_dark_style = "github-dark"
html_theme = "furo"
html_theme_options = {  # the ground of the drawings in the dark, which have one of their own
    "dark_css_variables": {"color-background-primary": "#0d1117", "color-background-secondary": "#161b22"},
}
html_title = "tensor-reshape"
html_favicon = "../tools/tensor_reshape/explorer/static/icon.svg"
# A host shows 404.html at any path, so its links begin with the root of the site.
html_additional_pages = {"404": "404.html"}
html_context = {"site_root": "/"}
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

# A copied command has neither its prompt nor its output.
copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .go"
