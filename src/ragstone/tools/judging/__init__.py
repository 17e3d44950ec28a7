"""What people and data sets say of a judge: labels, calibration, pairs."""
