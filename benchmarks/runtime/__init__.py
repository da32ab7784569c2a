"""Request and answer inside one process, by Hopline and by others: one file a contender."""
