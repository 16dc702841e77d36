"""The contents of the shape explorer page: the response to a query, its drawing, and the query as code."""
