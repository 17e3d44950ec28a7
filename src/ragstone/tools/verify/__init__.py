"""`ragstone verify`: an attestation, checked part by part against the run and what the verifier has."""
