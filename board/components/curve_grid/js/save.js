// A chart as a file: its numbers as CSV, its picture as PNG. Both are made here, of what is drawn.

const PNG_HEAD = 30;
const PNG_LEGEND = 20;

function saversOf(cell) {
  const name = cell.key.replace(/[^\w.-]+/g, "_");
  const csv = saver("CSV", "Save the numbers that are drawn", async () => new Blob([csvOf(cell.chart)], { type: "text/csv" }));
  const png = saver("PNG", "Save the picture", () => new Promise((found) => pictureOf(cell).toBlob(found)));
  return [csv(`${name}.csv`), png(`${name}.png`)];
}

function saver(label, title, blobOf) {
  return (file) => {
    const button = make("button", "save", label);
    button.type = "button";
    button.title = title;
    button.addEventListener("click", async () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await blobOf());
      link.download = file;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    });
    return button;
  };
}

/** A column for each line, and one of what was recorded where the line is smoothed. */
function csvOf({ lines, shapes }) {
  const columns = lines.flatMap((line) => {
    const name = unescaped(line.name);
    const recorded = shapes.find((shape) => shape.group === line.group && shape.recorded);
    const drawn = { name: recorded ? `${name}, smoothed` : name, x: line.x, y: line.y };
    return recorded ? [drawn, { name, x: recorded.x, y: recorded.y }] : [drawn];
  });
  const steps = [...new Set(columns.flatMap(({ x }) => x))].sort((a, b) => a - b);
  const values = columns.map(({ x, y }) => new Map(x.map((step, i) => [step, y[i]])));
  const rows = steps.map((step) => [step, ...values.map((of) => of.get(step) ?? "")]);
  return [["step", ...columns.map(({ name }) => quoted(name))], ...rows].map((row) => `${row.join()}\n`).join("");
}

/** A name may come from a log: a table program must not take it for a formula. */
function quoted(name) {
  const harmless = /^[=+\-@\t\r]/.test(name) ? `'${name}` : name;
  return `"${harmless.replaceAll('"', '""')}"`;
}

function pictureOf({ plot, grid, card, chart }) {
  const drawn = plot.ctx.canvas;
  const ratio = devicePixelRatio;
  const top = (PNG_HEAD + (chart.lines.length > 1 ? PNG_LEGEND : 0)) * ratio;
  const picture = document.createElement("canvas");
  [picture.width, picture.height] = [drawn.width, drawn.height + top];
  const ctx = picture.getContext("2d");
  ctx.fillStyle = getComputedStyle(grid.root).getPropertyValue("--st-background-color") || "white";
  ctx.fillRect(0, 0, picture.width, picture.height);
  ctx.drawImage(drawn, 0, top);
  ctx.scale(ratio, ratio);
  ctx.fillStyle = chart.ink.text;
  ctx.font = `600 15px ${FONT}`;
  ctx.fillText(card.unit ? `${card.title}, ${card.unit}` : card.title, 8, 20);
  if (chart.lines.length > 1) writeLegend(ctx, chart);
  ctx.fillStyle = chart.ink.muted;
  ctx.font = `10.5px ${FONT}`;
  ctx.fillText("step", 2, picture.height / ratio - 8);
  return picture;
}

function writeLegend(ctx, { lines, ink }) {
  ctx.font = `12px ${FONT}`;
  let x = 8;
  for (const line of lines) {
    const name = unescaped(line.name);
    ctx.fillStyle = line.ink;
    ctx.fillRect(x, PNG_HEAD + 7, 20, 2);
    ctx.fillStyle = ink.text;
    ctx.fillText(name, x + 26, PNG_HEAD + 12);
    x += 42 + ctx.measureText(name).width;
  }
}
