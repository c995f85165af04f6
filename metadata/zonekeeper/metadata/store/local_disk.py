"""Is a path on a disk of this machine? SQLite's log needs memory that all its processes share."""

import re
from pathlib import PurePosixPath
from typing import Final

#: The Linux names of file systems that other machines may use at the same time.
_NETWORK: Final = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.ceph-fuse",
        "fuse.glusterfs",
        "fuse.s3fs",
        "fuse.sshfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "smb3",
        "smbfs",
        "virtiofs",
    }
)

_MOUNT_POINT: Final = 4
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def network_file_system(path: PurePosixPath, mountinfo: str) -> str | None:
    """Give the name of the network file system that has a path; None if it is on no known one.

    ``mountinfo`` is the text of ``/proc/self/mountinfo``; ``path`` is absolute, links resolved.
    """
    depth = -1
    found = ""
    for line in mountinfo.splitlines():
        mount, separator, source = line.partition(" - ")
        fields = mount.split(" ")
        if not separator or len(fields) <= _MOUNT_POINT:
            continue
        point = PurePosixPath(_ESCAPED.sub(_unescape, fields[_MOUNT_POINT]))
        # If mounts cover one another, the last one counts, and it is the last in the text.
        if path.is_relative_to(point) and len(point.parts) >= depth:
            depth = len(point.parts)
            found = source.split(" ")[0]
    return found if found in _NETWORK else None


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match[1], 8))
