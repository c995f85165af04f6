"""The data on a bookie's disks: arrival segments, sorted segments, index, checkpoint.

::

    writers ─▶ log ─▶ arrival segments ─▶ rewrite ─▶ sorted segments
                 │        (recycled)         │            (for good)
                 ▼                           ├─▶ checkpoint: mark, sorted segments, ledger state
             memory: ledgers, tail index     └─▶ index: where the sorted entries are

An entry is acknowledged when it is in an arrival segment. Later it is rewritten once, sorted by
ledger. The *checkpoint* alone says what counts: the sorted segments, the ledger state, and the
mark. Nothing in the arrival segments up to the mark is needed any more. The index can be lost: it
is built again from the tables of the sorted segments and from the arrival segments past the mark.
"""
