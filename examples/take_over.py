"""Take over the ledger of a writer that has stopped, and go on in another one.

zonekeeper local up && eval "$(zonekeeper local env)"
python examples/take_over.py
"""

import os

from zonekeeper.client import blocking, errors


def main() -> None:
    """Leave a ledger open, open it with recovery, and see the old writer refused."""
    address = os.environ["ZONEKEEPER_METADATA"]
    with blocking.connect(address) as first, blocking.connect(address) as second:
        writer = first.create()
        writer.append_and_wait(b"acknowledged")

        try:
            second.open(writer.ledger_id)
        except errors.LedgerOpen as error:
            print(f"refused: {error}")

        # recover=True: the writer is fenced, each acknowledged entry stays, the ledger is closed.
        reader = second.open(writer.ledger_id, recover=True)
        entries = [bytes(entry.payload) for entry in reader.read_entries()]
        print(f"ledger {writer.ledger_id} ends with {entries}")

        try:
            writer.append_and_wait(b"too late")
        except errors.Fenced as error:
            print(f"the old writer: {error}")

        with second.create() as following:
            following.append(b"goes on here")
        print(f"written on in ledger {following.ledger_id}")


if __name__ == "__main__":
    main()
