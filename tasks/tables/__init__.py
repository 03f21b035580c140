"""Results as tables: of a run, of methods, of a benchmark, of a paper's experiment."""
