"""Fuzzing of everything that is read from a medium, a model or a wheel.

    pip install atheris                              # wheels for CPython 3.11 to 3.13 on Linux
    python -m tests.fuzz manifest --seconds 60       # one target, guided by coverage
    python -m tests.fuzz all --seconds 10            # every target in turn

Without atheris the same targets get the seeds, and mutations of them that no coverage guides.
What is found is written to `crash-*` and printed; `python -m tests.fuzz TARGET FILE …` repeats it.
"""
