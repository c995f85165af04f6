"""The rules: where data goes, in which order it is read, and when a zone counts as down.

The rules are pure: state and event in, state and effects out. No module here reads a clock, has a
random generator of its own, opens a file or a socket, or starts a thread. Chance and the present
time are parameters, so the same input gives the same output on every machine. Times are whole
milliseconds on a monotonic clock.

Import the modules (``from zonekeeper.placement.zones import gate``). The names in a module are
chosen to be read together with the module's name, so nothing is re-exported from here.
"""
