collect_ignore = ["compare.py", "nuts.py"]  # they have no doctests, and one needs NumPyro
