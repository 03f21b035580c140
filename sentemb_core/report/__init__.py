"""The page a person reads after a run: what moved, on what data, and how to get it again."""
