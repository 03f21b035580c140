"""Content-addressed artifacts, cached stages, records, lineage, runs and maintenance."""
