"""Explorer, HTTP search service and assistant server."""
