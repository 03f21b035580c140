"""The chapters of a report's page: each from the data to markup, its figures drawn already."""
