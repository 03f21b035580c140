"""What the five papers print, as data: a table or figure each, to set our own numbers beside."""
