"""Sphinx configuration: Markdown pages by MyST, the API reference by autodoc, the theme furo."""

from __future__ import annotations

import hopline

project = "Hopline"
author = "Hopline authors"
copyright = author  # noqa: A001 - the name that Sphinx reads
release = hopline.__version__
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
nitpicky = False

highlight_language = "none"  # blocks name their language
html_theme = "furo"
html_title = f"Hopline {release}"

myst_heading_anchors = 4  # links to headings work as on GitHub
# Benchmarks, examples and sources stand outside of docs/ and are linked for readers of the repository.
suppress_warnings = ["myst.xref_missing"]

add_module_names = False  # the heading names the package
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
