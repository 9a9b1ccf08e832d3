"""`make torture`: a machine that looks for ways to lose a row. `python -m tests.torture --minutes
60 --suite all --seed 1`.

**A suite** is a module of `tests/torture/suites/` with an object `SUITE` that fits
`tests.torture.suite.Suite`:

    class Fuzz:
        name = "fuzz"              # what `--suite` says quick = (1, 2)             # seeds whose
        rounds are part of `make test`; () for none. Each a few seconds of CPU quick_seconds = 5.0
        # how long such a round may go on

        def run(self, seed: int, deadline: float) -> Tally: ...

    SUITE = Fuzz()

`run` plays one **round**: all that it chooses follows from `seed` (`random.Random(seed)`; how
processes are scheduled is all that may differ), and it ends by itself at `deadline`, a moment of
`time.monotonic()`, or earlier: some seconds to a minute is right. The machine plays rounds with the
seeds SEED, SEED + 1, ... until the minutes are over, and shares them evenly between the suites it
was asked for. A round leaves nothing behind: no process, mount, server or folder.

It returns a `Tally`:

    tally = Tally() tally.count("files damaged")                      # what was tried, in words
    that make a table tally.count("rows accounted", 1200) tally.violation("lost", "10 rows of append
    7 are gone", seed=seed, verb="purge", damage="flip manifest-3a...avro") return tally

A violation is a fact about the product that must not be: its kind is one of `lost` (a committed row
is gone or a table cannot be opened any more), `wrong` (another answer, a row twice, a finding of
verify), `error` (not one of our errors) and `bounds` (more time or memory than allowed). It is
found again by playing its seed alone: `python -m tests.torture --suite fuzz --seed 17 --rounds 1`.
A suite that cannot run here (no root, no npm) says why: `raise Unavailable("...")`; that is told in
the table, and is no violation. Any other exception of `run` is told as `error` with its traceback,
and the machine goes on.

The machine prints a table (tried, lost, wrong, ...) and writes JSON to
`bench/results/torture-<suites>-<seed>.json`. It ends with 1 if there was a violation.
"""
