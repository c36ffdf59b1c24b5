// The tokens worth a look: the strongest ones by the chosen metric.

const PEAK_SHARE = 0.01;
const LEAST_PEAKS = 5;

/** Where n and p go: peaks by falling value, hits of a mask in reading order; `last`: the stop before. */
function nextStop(found, pin, last, direction, inOrder) {
  const at = found.indexOf(pin);
  if (at >= 0) return (at + direction + found.length) % found.length;
  if (inOrder && pin !== null) {
    const after = found.findIndex((i) => i > pin);
    const next = after < 0 ? found.length : after;
    return (direction > 0 ? next : next - 1 + found.length) % found.length;
  }
  // From a token between peaks: on from the peak before, or back to it.
  const before = found.indexOf(last);
  if (before < 0) return direction > 0 ? 0 : found.length - 1;
  return direction > 0 ? (before + 1) % found.length : before;
}

function stopWords(found, pin, inOrder) {
  const [noun, how] = inOrder ? ["hit", "in reading order"] : ["peak", "by value"];
  if (!found.length) return `no ${noun}s`;
  const place = found.indexOf(pin);
  if (place < 0) return counted(found.length, noun);
  return `${noun} ${withThousands(place + 1)} of ${withThousands(found.length)} ${how}`;
}

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
