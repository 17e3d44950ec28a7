"""`ragstone history`: the runs of the main branch as a list, as CSV and as a page."""
