// The tokens worth a look: the strongest ones by the chosen metric.

const PEAK_SHARE = 0.01;
const LEAST_PEAKS = 5;

/** Token indices by falling strength: the top 1 % (at least five) of the tokens in the loss. */
function rankPeaks(metric, scale, inLoss) {
  const strengths = metric.values.map((x, i) => {
    const counts = inLoss[i] !== OUTSIDE && !isAbsent(metric, i) && !Number.isNaN(x);
    return counts ? scale.strength(x) : 0;
  });
  const sorted = strengths.slice().sort();
  const flag = metric.spec.kind === "flag";
  const most = flag ? sorted.length : Math.max(LEAST_PEAKS, Math.ceil(PEAK_SHARE * sorted.length));
  const least = sorted[Math.max(0, sorted.length - most)];
  const strong = [];
  strengths.forEach((strength, i) => {
    if (strength > 0 && strength >= least) strong.push(i);
  });
  strong.sort((a, b) => strengths[b] - strengths[a] || a - b);
  return strong.slice(0, most);
}
