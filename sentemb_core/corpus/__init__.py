"""From raw rows to clean documents, their token cache and their retrieval benchmark."""
