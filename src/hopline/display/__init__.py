"""Messages and bodies as people read them, for the terminal and for pages alike."""
