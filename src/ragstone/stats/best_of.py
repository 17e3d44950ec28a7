"""What choosing the best of several is worth by chance alone."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

_END = 12.0


def expected_maximum(count: float) -> float:
    """The expected maximum of `count` independent standard normal values; 0 for one or fewer. Fractions are allowed.

    E = b - ∫ Φ(z)^count dz over (-b, b), by the trapezoidal rule. Source: L. Tippett, "On the extreme individuals and
    the range of samples taken from a normal population", Biometrika 17 (1925).
    """
    z = np.linspace(-_END, _END, 4801)
    return 0.0 if count <= 1.0 else _END - float(np.trapezoid(ndtr(z) ** count, z))
