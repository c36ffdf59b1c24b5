const WIDTH = 100;

// Points of a line over the whole width, smallest at the bottom; edge: room above and below.
function placed(values, height, edge) {
  const low = Math.min(...values);
  const reach = Math.max(...values) - low || 1;
  const along = WIDTH / Math.max(values.length - 1, 1);
  return values.map((value, i) => {
    const above = ((value - low) / reach) * (height - 2 * edge) + edge;
    return `${(i * along).toFixed(2)},${(height - above).toFixed(2)}`;
  });
}
