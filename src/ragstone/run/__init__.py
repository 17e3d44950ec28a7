"""One evaluation of one version of the system: the engine, and the run directory."""
