collect_ignore_glob = ["[!t]*.py"]  # all but the tests have no doctests, and take long to import
