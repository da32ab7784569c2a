"""What the pages show: one file a page, each a function of the tables and of what the address asks for."""
