"""Settings of the documentation: Markdown pages and the docstrings."""

import importlib.metadata

project = "leeward"
author = "the leeward developers"
release = importlib.metadata.version("leeward")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "alabaster"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_use_ivar = True  # an attribute in a class docstring may be a property with words of its own
suppress_warnings = ["ref.python"]  # attributes of several classes share short names
