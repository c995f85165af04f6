"""What a bookie keeps, on its disks: arrival segments, sorted segments, index, checkpoint.

::

    writers ─▶ log ─▶ arrival segments ─▶ rewrite ─▶ sorted segments
                 │        (recycled)         │            (for good)
                 ▼                           ├─▶ checkpoint: mark, sorted segments, ledger state
             memory: ledgers, tail index     └─▶ index: where the sorted entries are

Data is acknowledged from an arrival segment and rewritten once, sorted by ledger. The *checkpoint*
is the one place that says what counts: which sorted segments there are, the ledger state, and the
mark, up to which nothing in the arrival segments is needed any more. The index can be lost: it is
built again from the tables of the sorted segments and from the arrival segments past the mark.
"""
