"""One evaluation of one version of the system: the engine, its rounds, the run
directory."""
