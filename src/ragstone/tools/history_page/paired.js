"use strict";
// What stats/intervals.py does for paired differences: the mean, and Gaffke's 95 % interval over samples or groups.
const paired = (() => {
  const TARGET = -1.959963984540054, LEVEL = 0.025, TINY = 1e-12, STEPS = 80;

  // Sums by independent block: a sample, or a group of related ones. Equal samples are merged.
  function blocksOf(values, groups) {
    const n = values.length, blocks = new Map();
    values.forEach((value, place) => {
      const key = groups ? groups[place] : value, block = blocks.get(key);
      if (!block) { blocks.set(key, { total: value, size: 1, count: 1 }); }
      else if (groups) { block.total += value; block.size += 1; } else { block.count += 1; }
    });
    const found = [...blocks.values()];
    const typical = found.reduce((sum, { size, count }) => sum + count * size * size, 0) / n;
    return { blocks: found, n, typical };
  }

  const mirrored = ({ blocks, n, typical }) =>
    ({ blocks: blocks.map(({ total, size, count }) => ({ total: -total, size, count })), n, typical });

  // The normal quantile of P(Σ a G > 0), G ~ Gamma(c, 1): saddlepoint approximation (bounded_mean.py).
  function quantile(weights, counts) {
    const top = Math.max(...weights), bottom = Math.min(...weights);
    if (!(top > TINY && bottom < -TINY)) { return top > TINY || bottom >= -TINY ? Infinity : -Infinity; }
    const scale = Math.max(top, -bottom), a = weights.map(weight => weight / scale);
    let low = scale / bottom, high = scale / top, s = 0;
    for (let step = 0; step < STEPS; step++) {
      let slope = 0, curve = 0;
      a.forEach((weight, at) => {
        const ratio = weight / (1 - s * weight);
        slope += counts[at] * ratio;
        curve += counts[at] * ratio * ratio;
      });
      if (slope < 0) { low = s; }
      if (slope > 0) { high = s; }
      const newton = s - slope / curve, next = newton > low && newton < high ? newton : 0.5 * (low + high);
      const done = Math.abs(next - s) <= 1e-9 * (1e-3 + Math.abs(s));
      s = next;
      if (done) { break; }
    }
    let k0 = 0, k2 = 0, squares = 0, cubes = 0;
    a.forEach((weight, at) => {
      const rest = 1 - s * weight;
      k0 -= counts[at] * Math.log(rest);
      k2 += counts[at] * (weight / rest) ** 2;
      squares += counts[at] * weight * weight;
      cubes += counts[at] * weight ** 3;
    });
    const w = Math.sign(s) * Math.sqrt(Math.max(-2 * k0, 0)), u = s * Math.sqrt(k2);
    return -(Math.abs(w) < 1e-4 ? 2 * cubes / squares ** 1.5 / 6 + w : w + Math.log(u / w) / w);
  }

  function upperLimit(found, lo, hi) {
    const { blocks, n, typical } = found;
    if (blocks.every(({ total, size }) => size === 1 && (total === lo || total === hi))) {
      const ones = blocks.reduce((sum, { total, count }) => sum + (total === hi ? count : 0), 0);
      return ones === n ? hi : lo + (hi - lo) * betaQuantile(ones + 1, n - ones, 1 - LEVEL);
    }
    const mean = Math.max(lo, blocks.reduce((sum, { total, count }) => sum + total * count, 0) / n);
    const counts = [...blocks.map(({ count }) => count), 1];
    const at = bound => quantile([...blocks.map(({ total, size }) => total - size * bound), typical * (hi - bound)], counts);
    if (mean >= hi || at(hi) >= TARGET) { return hi; }
    let low = mean, high = hi;
    while (high - low > 1e-9) {
      const middle = 0.5 * (low + high);
      if (at(middle) > TARGET) { low = middle; } else { high = middle; }
    }
    return 0.5 * (low + high);
  }

  // The regularised incomplete beta function by its continued fraction, and its inverse by bisection.
  function betaQuantile(a, b, share) {
    let low = 0, high = 1;
    for (let step = 0; step < 60; step++) {
      const middle = 0.5 * (low + high);
      if (beta(a, b, middle) < share) { low = middle; } else { high = middle; }
    }
    return 0.5 * (low + high);
  }

  function beta(a, b, x) {
    if (x <= 0 || x >= 1) { return x <= 0 ? 0 : 1; }
    const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * fraction(a, b, x) / a : 1 - front * fraction(b, a, 1 - x) / b;
  }

  function fraction(a, b, x) {
    const safe = value => Math.abs(value) < 1e-300 ? 1e-300 : value;
    let c = 1, d = 1 / safe(1 - (a + b) * x / (a + 1)), value = d;
    for (let m = 1; m < 10000; m++) {
      const even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
      d = 1 / safe(1 + even * d);
      c = safe(1 + even / c);
      value *= c * d;
      const odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
      d = 1 / safe(1 + odd * d);
      c = safe(1 + odd / c);
      value *= c * d;
      if (Math.abs(c * d - 1) < 1e-15) { break; }
    }
    return value;
  }

  // Stirling's series, after shifting the argument beyond 12.
  function logGamma(x) {
    let shift = 0;
    for (; x < 12; x++) { shift -= Math.log(x); }
    const z = 1 / (x * x);
    return shift + (x - 0.5) * Math.log(x) - x + 0.9189385332046727
      + (1 / 12 - z * (1 / 360 - z * (1 / 1260 - z * (1 / 1680 - z / 1188)))) / x;
  }

  // Differences in [-1, 1], one at least, and the group of each or null: the mean, its 95 % interval, and counts.
  function meanInterval(differences, groups) {
    const n = differences.length, many = groups ? new Set(groups).size : null;
    if (differences.every(value => value === 0)) { return { estimate: 0, low: 0, high: 0, n, groups: many }; }
    const estimate = differences.reduce((sum, value) => sum + value, 0) / n;
    const reach = Math.min(1, differences.reduce((most, value) => Math.max(most, Math.abs(value)), 0.5));
    const found = blocksOf(differences, groups);
    return {
      estimate, n, groups: many,
      low: Math.min(-upperLimit(mirrored(found), -reach, reach), estimate),
      high: Math.max(upperLimit(found, -reach, reach), estimate),
    };
  }

  return { meanInterval };
})();
