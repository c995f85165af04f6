"""Export hints: a bookie's knowledge of ledgers' metadata, for ``zonekeeper metadata rebuild``."""

from collections.abc import Iterator

from zonekeeper.bookie.tools import contents as all_of
from zonekeeper.bookie.tools.contents import Contents, LedgerSummary
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.saving.rebuilding_format import (
    FragmentHint,
    HintsHeader,
    HintsWriter,
    LedgerHints,
)


def lines(cookie: Cookie, contents: Contents) -> Iterator[str]:
    """Give the lines of a file of hints."""
    writer = HintsWriter()
    yield writer.header(
        HintsHeader(
            instance=cookie.instance, bookie=cookie.bookie, generation=contents.end.generation
        )
    )
    for summary in all_of.ledgers(contents):
        yield writer.ledger(_hints(summary))
    yield writer.footer()


def _hints(summary: LedgerSummary) -> LedgerHints:
    state = summary.state
    return LedgerHints(
        ledger_id=summary.ledger_id,
        master_key=state.master_key,
        fenced=state.fenced,
        in_limbo=state.in_limbo,
        lac=summary.lac,
        first_entry=summary.first,
        last_entry=summary.last,
        entries=summary.entries,
        fragments=tuple(
            FragmentHint(
                first_entry=opening.first_entry_id,
                ensemble=opening.ensemble,
                quorums=opening.quorums,
                digest=opening.digest,
            )
            for opening in state.fragments
        ),
        create_token=state.create_token,
    )
