"""Which nodes there are, what each of them handles, and which of them are alive."""
