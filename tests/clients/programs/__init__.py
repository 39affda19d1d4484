"""Programs on others' clients, unmodified; each runs alone and says what it saw."""
