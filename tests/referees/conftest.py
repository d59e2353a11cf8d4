# They have no doctests, and some need NumPyro.
collect_ignore = ["compare.py", "nuts.py", "ordinal_long.py"]
