"""The soak: a network under load, with faults, captured and streamed into tables. `soak.py` says what it proves."""
