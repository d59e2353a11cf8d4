"""How long `import atoll` takes in a new process: the median of five."""

from __future__ import annotations

import statistics
import subprocess
import sys

TIMED_IMPORT = (
    "import time; start = time.perf_counter(); import atoll; print(time.perf_counter() - start)"
)


def seconds_of_one_import() -> float:
    run = subprocess.run(
        [sys.executable, "-c", TIMED_IMPORT], capture_output=True, text=True, check=True
    )
    return float(run.stdout)


if __name__ == "__main__":
    seconds_of_one_import()  # the first one may have to compile bytecode
    seconds = [seconds_of_one_import() for _ in range(5)]
    print(f"import atoll: {statistics.median(seconds):.3f} s (median of {len(seconds)})")
