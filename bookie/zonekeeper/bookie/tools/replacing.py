"""Replace the lost disk of a bookie by an empty one; the bookie keeps its id.

The bookie must not deny an entry that it acknowledged. So before it serves, its checkpoint puts
every ledger that the lost disk may have held into limbo, which also fences the ledger. Then an
entry that is not here is unknown. No writer goes on with a ledger whose fence may have been lost.

The ledgers that are put into limbo depend on the lost folder:

* All folders: every ledger whose metadata names the bookie in any fragment. No ledger is missed,
  because no new ensemble gets a bookie that is not registered.
* The journal alone: every ledger whose metadata names the bookie, and every ledger in the
  checkpoint.
* One ledger directory: every ledger with entries in the segments that are missing now; if the index
  does not know those segments, every ledger.

If a ledger directory is lost, the log stays. The log may hold records that ended an earlier limbo.
They must not end this one, so the checkpoint sets ``limbo_generation`` to the log's newest
generation. A ledger whose earlier limbo had ended, and that lost nothing now, must stay out of
limbo: the checkpoint itself says that its limbo ended. If the journal is lost, all its generations
are lost, and ``limbo_generation`` is 0.

The file ``log-end`` says how far the log was known to be on the disk. If the journal is lost, the
file is set to the checkpoint's mark: nothing of the log behind it is there any more.

The checkpoint is written before the cookie. A bookie does not start without a cookie in each
folder. So a replacement that was cut short must be, and can be, done again.
"""

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from zonekeeper.bookie.disk import whole_files
from zonekeeper.bookie.formats import locations, log_end
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint, Kept
from zonekeeper.bookie.formats.index import Index
from zonekeeper.bookie.formats.log_end import LogEnd
from zonekeeper.bookie.ledgers import admission, records
from zonekeeper.bookie.life import boots, identity
from zonekeeper.bookie.life.data_folder import HeldFolders
from zonekeeper.bookie.life.identity import Version
from zonekeeper.bookie.segments import checkpoint as checkpoints
from zonekeeper.bookie.segments import directories, log_ends
from zonekeeper.bookie.storage import storage
from zonekeeper.bookie.tools import chains, contents, identities
from zonekeeper.bookie.tools.folders import ToolError
from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, LedgerId

#: The files that a replacement may leave when it is cut short: in any folder, in the data folder,
#: and in the other folders.
_CUT_SHORT_IN_A_FOLDER: Final = frozenset({boots.NAME, boots.NEW_NAME, identity.NEW_NAME})
_CUT_SHORT: Final = _CUT_SHORT_IN_A_FOLDER | {
    each for name in (checkpoints.NAME, log_end.NAME) for each in (name, whole_files.new_name(name))
}
_CUT_SHORT_ELSEWHERE: Final = _CUT_SHORT_IN_A_FOLDER | {identity.VERSION_NAME}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDisk:
    """The data for a new disk."""

    cookie: Cookie
    #: The ledgers that name the bookie.
    ledgers: tuple[LedgerId, ...]
    #: The bookie's count of starts in the store.
    started: int


def check_unused(data: Path, cookie: Cookie, folder: str | None) -> None:
    """Refuse a new disk that is not empty; files of a replacement that was cut short are allowed.

    With ``folder`` only that folder is new.
    """
    if folder is not None:
        identities.check_empty(Path(folder), besides=_CUT_SHORT_IN_A_FOLDER)
        return
    identities.check_empty(data, besides=_CUT_SHORT)
    for other in identity.other_folders(cookie):
        identities.check_empty(Path(other), besides=_CUT_SHORT_ELSEWHERE)


def data_of(cookie: Cookie, given: Path) -> Path:
    """Give the bookie's data folder as the cookie spells it; raises ``ToolError``."""
    known = cookie.index_dirs or cookie.journal_dirs
    if (folder := _spelled(known, given)) is None:
        raise ToolError(
            f"--data: the data of {cookie.bookie} is in {', '.join(known)}: mount the new disk "
            "there"
        )
    return Path(folder)


def folder_of(cookie: Cookie, given: Path) -> str:
    """Give another folder of the bookie as the cookie spells it; raises ``ToolError``."""
    others = identity.other_folders(cookie)
    if (folder := _spelled(others, given)) is None:
        raise ToolError(
            f"--folder: {given} is no folder of {cookie.bookie} besides that of its data: "
            f"{', '.join(others) or 'it has none'}"
        )
    return folder


def _spelled(known: Iterable[str], given: Path) -> str | None:
    """Find a folder among those of a cookie, which spells them as they were given to the bookie."""
    wanted = os.path.normpath(given)
    return next((each for each in known if os.path.normpath(each) == wanted), None)


async def look(cluster: Cluster, bookie: BookieId, data: Path) -> NewDisk:
    """Read the bookie's cookie, its count of starts, and every ledger that names it."""
    stored = await cookie_store.read(cluster, bookie)
    if stored is None:
        raise ToolError(
            f"{cluster} does not know {bookie}, so there is no disk to replace: prepare a new "
            "bookie with `zonekeeper bookie format`"
        )
    cookie = stored.cookie
    data_of(cookie, data)
    await identities.refuse_registered(cluster, bookie)
    return NewDisk(
        cookie=cookie,
        ledgers=await identities.naming(cluster, bookie),
        started=(await bookie_records.read(cluster, bookie)).boot_epoch,
    )


def replace_disk(held: HeldFolders, wanted: NewDisk, chance: Chance) -> None:
    """Prepare new disks for all folders; the data folder's cookie comes last. Blocks."""
    storage.create(held.data, chance)
    boots.save_all(held.data, held.journal, wanted.started)
    checkpoints.save(held.data, _with_limbo(checkpoints.load(held.data), wanted.ledgers))
    for folder in sorted(held.folders, key=lambda each: each is None):
        _write_cookie(held, folder, wanted.cookie)


def replace_folder(held: HeldFolders, folder: str, wanted: NewDisk, index: Index) -> int:
    """Prepare a new disk for one folder, and give the number of ledgers in limbo. Blocks."""
    last = checkpoints.load(held.data)
    after = last
    if folder not in wanted.cookie.journal_dirs:
        known = log_ends.load(held.data, last)
    else:
        boots.save(held.journal, wanted.started)
        # Not read: of the log behind the mark nothing is there any more, whatever the file says.
        known = log_end.none_of(last.log_id, last.mark)
        every = {*wanted.ledgers, *_ids(last)}
        after = _with_limbo(replace(last, limbo_generation=0), every)
    if folder in wanted.cookie.ledger_dirs:
        missing = _missing(held, last)
        kept = [each for each in last.segments if each.number not in missing]
        after = replace(
            after,
            segments=tuple(kept),
            limbo_generation=_newest(held, last, known),
            ledgers=_out_of_limbo(held, after, known, index),
        )
        after = _with_limbo(after, _ledgers_in(missing, last, index))
    # Before the checkpoint, which says that it is there.
    log_ends.save(held.data, known)
    checkpoints.save(held.data, after)
    _write_cookie(held, folder, wanted.cookie)
    return sum(kept.state.in_limbo for _, kept in after.ledgers.items())


def _newest(held: HeldFolders, last: Checkpoint, known: LogEnd) -> int:
    """Give the newest generation of the log; the next start begins a newer one."""
    with chains.opened(held.journal, last, known) as chain:
        return max((link.generation for link in chain.links), default=last.mark.generation)


def _out_of_limbo(
    held: HeldFolders, last: Checkpoint, known: LogEnd, index: Index
) -> dict[LedgerId, Kept]:
    """Give the ledgers of the checkpoint, out of limbo where the log ended it."""
    memory = contents.load(last, known, held.journal, index).memory
    found = dict(last.ledgers.items())
    for ledger_id, kept in found.items():
        now = memory.ledgers.get(ledger_id)
        if now is not None and not now.durable.in_limbo and kept.state.in_limbo:
            found[ledger_id] = _limbo(ledger_id, kept, in_limbo=False)
    return found


def _missing(held: HeldFolders, last: Checkpoint) -> frozenset[int]:
    """Give the sorted segments that count and are not in their directory."""
    names = [frozenset(files.names()) for files in held.ledgers]
    return frozenset(
        each.number
        for each in last.segments
        if directories.name_of(each.number) not in names[each.directory]
    )


def _ledgers_in(missing: frozenset[int], last: Checkpoint, index: Index) -> set[LedgerId]:
    """Give the ledgers with entries in these segments; all ledgers, if the index does not know."""
    if not missing <= index.segments():
        return _ids(last)
    found: set[LedgerId] = set()
    counts = last.counting()
    for ledger_id, extent in index.rows():
        number = locations.sorted_number(extent.offset)
        if number is not None and number in missing and counts(ledger_id, number):
            found.add(ledger_id)
    return found


def _with_limbo(last: Checkpoint, ledgers: Collection[LedgerId]) -> Checkpoint:
    unknown = Kept(state=admission.UNKNOWN, confirmed=NO_ENTRY)
    changed = dict(last.ledgers.items())
    for ledger_id in sorted(ledgers):
        changed[ledger_id] = _limbo(ledger_id, changed.get(ledger_id, unknown), in_limbo=True)
    return replace(last, ledgers=changed)


def _limbo(ledger_id: LedgerId, kept: Kept, *, in_limbo: bool) -> Kept:
    """Give what the checkpoint says of a ledger once its limbo has begun, or has ended."""
    record = records.LimboRecord(ledger_id=ledger_id, in_limbo=in_limbo)
    return replace(kept, state=admission.applied(kept.state, record))


def _ids(last: Checkpoint) -> set[LedgerId]:
    return {ledger_id for ledger_id, _ in last.ledgers.items()}


def _write_cookie(held: HeldFolders, folder: str | None, cookie: Cookie) -> None:
    identity.write(held.folders[folder], Version(cookie=cookie, folder=folder))
