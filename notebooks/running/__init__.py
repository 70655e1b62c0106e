"""Notebooks run without a person by papermill, and with one in JupyterLab."""
