"""The command `atoll`, as `python -m atoll`."""

from atoll.cli import main

if __name__ == "__main__":
    main()
