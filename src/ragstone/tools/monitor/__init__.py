"""`ragstone monitor`: a window of logged interactions as a run, compared with the
windows before it."""
