"""What people and data sets say of a judge: labels, calibration, meta-evaluation, noise."""
