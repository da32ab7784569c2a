# Compiled from the tables in hopline.wire.layouts by tools/compiler.
# Do not edit: change the tables and run ``make generate``.
"""The fast paths, one module a layout, by the layout's name."""

from hopline.wire.compiled import first, first_ticks, v4, v5, v5_int32, v6

ENCODERS = {
    "FIRST": first.encode,
    "FIRST_TICKS": first_ticks.encode,
    "V4": v4.encode,
    "V5_INT32": v5_int32.encode,
    "V5": v5.encode,
    "V6": v6.encode,
}
DECODERS = {
    "FIRST": first.decode,
    "FIRST_TICKS": first_ticks.decode,
    "V4": v4.decode,
    "V5_INT32": v5_int32.decode,
    "V5": v5.decode,
    "V6": v6.decode,
}
VIEWS = {
    "FIRST": first.view,
    "FIRST_TICKS": first_ticks.view,
    "V4": v4.view,
    "V5_INT32": v5_int32.view,
    "V5": v5.view,
    "V6": v6.view,
}
META_VIEWS = {"V6": v6.view_of_meta}
