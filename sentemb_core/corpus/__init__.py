"""Raw rows to clean documents, their token cache, their validation pool and their labels."""
