"""How results look: tables, colours, charts, pages. Pure: from objects to text."""
