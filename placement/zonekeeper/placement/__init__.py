"""Where data goes, in which order it is read, and when a zone counts as down.

Pure rules: state and event in, state and effects out. Nothing here reads a clock, rolls dice of
its own, opens a file or a socket, or starts a thread; chance and the present are parameters, so
that the same input gives the same output on every machine. Times are whole milliseconds on a
monotonic clock.

Import the modules (``from zonekeeper.placement.zones import gate``): a module's name is half of the
names in it, so nothing is re-exported from here.
"""
