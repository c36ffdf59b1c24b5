// From difference to difference, and where they are in the whole text.

function showCount(view) {
  const total = view.differences.length;
  const at = view.current === null ? "" : `difference ${withThousands(view.current + 1)} of `;
  view.ui.count.textContent = total ? `${at}${at ? withThousands(total) : counted(total, "difference")}` : "no difference";
  view.ui.previous.disabled = view.ui.next.disabled = !total;
}

/** direction: 1 for the next one, -1 for the one before; around at the ends. */
function moveDifference(view, direction) {
  const total = view.differences.length;
  if (!total) return;
  const from = view.current ?? (direction > 0 ? -1 : total);
  goToDifference(view, (from + direction + total) % total);
}

function goToDifference(view, number, { scroll = true } = {}) {
  markCurrent(view, false);
  view.current = number;
  const change = view.differences[number];
  fillBlock(view, change.row.block);
  markCurrent(view, true);
  showCount(view);
  if (scroll) scrollToDifference(view, change);
  drawMapSoon(view);
}

function markCurrent(view, on) {
  if (view.current === null) return;
  for (const element of view.differences[view.current].elements) element.classList.toggle("current", on);
}

/** Blocks get their true height when they are filled, some frames later: so look again after. */
function scrollToDifference(view, change, frames = 6) {
  const { flow } = view.ui;
  const frame = flow.getBoundingClientRect();
  const place = (change.elements[0] ?? change.row.element).getBoundingClientRect();
  const margin = frame.height * 0.15;
  const isInView = place.top >= frame.top + margin && place.bottom <= frame.bottom - margin;
  if (!isInView) flow.scrollTop += place.top - frame.top - frame.height / 3;
  const isCurrent = () => view.differences[view.current] === change;
  if (frames > 1) requestAnimationFrame(() => isCurrent() && scrollToDifference(view, change, frames - 1));
}

// --- the map beside the text ---------------------------------------------------------------------

function drawMapSoon(view) {
  cancelAnimationFrame(view.drawing);
  view.drawing = requestAnimationFrame(() => drawMap(view));
}

/** A mark at the height of each difference: left half where this rollout has text, right the other. */
function drawMap(view) {
  const { map, flow } = view.ui;
  const [width, height] = [map.clientWidth, map.clientHeight];
  if (!width || !height) return;
  const ratio = window.devicePixelRatio || 1;
  Object.assign(map, { width: width * ratio, height: height * ratio });
  const context = map.getContext("2d");
  context.scale(ratio, ratio);
  const style = getComputedStyle(view.ui.root);
  const [removed, added, ink] = ["--removed", "--added", "--st-text-color"].map((name) => style.getPropertyValue(name));
  const scale = Math.min(1, height / flow.scrollHeight);
  for (const change of view.differences) {
    const [top, tall] = placeOf(view, change).map((pixels) => pixels * scale);
    context.fillStyle = removed;
    if (change.left) context.fillRect(2, top, width / 2 - 3, Math.max(2, tall));
    context.fillStyle = added;
    if (change.right) context.fillRect(width / 2 + 1, top, width / 2 - 3, Math.max(2, tall));
    context.fillStyle = ink;
    if (change.number === view.current) context.fillRect(0, top - 1, width, 2);
  }
  drawHits(view, context, width, scale, style.getPropertyValue("--hit-now"));
  moveSight(view);
}

/** Top and height of a difference in the scrolled text, in pixels; guessed where its row is not made. */
function placeOf(view, { row, last, elements }) {
  const { flow } = view.ui;
  const from = flow.getBoundingClientRect().top - flow.scrollTop;
  const boxes = elements.map((element) => element.getBoundingClientRect());
  for (const end of [row, last]) {
    if (end.element) continue;
    const box = end.block.getBoundingClientRect();
    const top = box.top + end.share * box.height;
    boxes.push({ top, bottom: top + 2 });
  }
  const top = Math.min(...boxes.map((box) => box.top)) - from;
  return [top, Math.max(...boxes.map((box) => box.bottom)) - from - top];
}

function moveSight(view) {
  const { flow, map, sight } = view.ui;
  const scale = Math.min(1, map.clientHeight / flow.scrollHeight);
  sight.hidden = flow.scrollHeight <= flow.clientHeight;
  sight.style.transform = `translateY(${flow.scrollTop * scale}px)`;
  sight.style.height = `${flow.clientHeight * scale}px`;
}

/** A click on the map goes there; dragging scrolls through. */
function bindMap(view) {
  const { map, flow } = view.ui;
  const go = (event) => {
    const scale = Math.min(1, map.clientHeight / flow.scrollHeight);
    flow.scrollTop = event.offsetY / scale - flow.clientHeight / 2;
  };
  map.onpointerdown = (event) => {
    map.setPointerCapture(event.pointerId);
    go(event);
  };
  map.onpointermove = (event) => map.hasPointerCapture(event.pointerId) && go(event);
  flow.addEventListener("scroll", () => moveSight(view), { passive: true });
}
