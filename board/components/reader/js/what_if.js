// The drawer of what-if masks: two masks, their thresholds, and how they go together.

const SLOTS = ["A", "B"];

function openWhatIf(view, open) {
  view.whatIf.open = open;
  view.ui.whatIf.hidden = !open;
  // Colours are the masks' now, and their keys stand below.
  view.ui.legend.hidden = open;
  view.ui.whatIfButton.setAttribute("aria-pressed", String(open));
  if (open) fillWhatIf(view);
}

/** The user's change of the masks: shown at once, told to Python where it comes to rest. */
function changeMasks(view) {
  recolour(view);
  clearTimeout(view.reportingMasks);
  view.reportingMasks = setTimeout(() => report(view, "masks", masksNow(view)), REPORT_DELAY_MS);
}

/** The masks as Python and the URL name them; null where the drawer is closed. */
function masksNow(view) {
  if (!view.whatIf.open) return null;
  return view.whatIf.slots.map(({ name, numbers }) => {
    if (!name) return null;
    const rule = view.rollout.rules.find((one) => one.name === name);
    return [name, ...(rule ? thresholdsOf(rule) : []).map((one) => numbers[name]?.[one.name] ?? one.default)];
  });
}

/** Masks that Python asks for. */
function takeMasks(view, masks) {
  masks?.forEach((mask, rank) => {
    const slot = view.whatIf.slots[rank];
    const [name, ...numbers] = mask ?? [""];
    const rule = view.rollout.rules.find((one) => one.name === name);
    slot.name = name;
    if (!rule || !numbers.length) return;
    slot.numbers[name] = Object.fromEntries(thresholdsOf(rule).map((one, i) => [one.name, numbers[i]]));
  });
  openWhatIf(view, masks !== null);
}

function thresholdsOf(rule) {
  return [rule.low, rule.high].filter(Boolean);
}

/** Build the drawer for this rollout; choices and thresholds made before are kept where they fit. */
function fillWhatIf(view) {
  const sources = maskSources(view.rollout);
  view.whatIf.sources = sources;
  const usable = sources.filter((source) => !source.lacks);
  const recorded = usable.find((source) => source.name === "is_masked");
  const defaults = [usable[0], recorded ?? usable.find((source) => source !== usable[0] && source.rule)];
  SLOTS.forEach((_, rank) => {
    const slot = view.whatIf.slots[rank];
    slot.name ??= defaults[rank]?.name ?? "";
    slot.source = usable.find(({ name }) => name === slot.name) ?? null;
    slot.box ??= make("div", "slot");
    fillSlot(view, slot, rank);
  });
  const boxes = view.whatIf.slots.map((slot) => slot.box);
  view.whatIf.agreement ??= make("div", "agreement");
  view.ui.whatIf.replaceChildren(...boxes, view.whatIf.agreement);
}

function fillSlot(view, slot, rank) {
  const select = make("select", "mask-source");
  select.setAttribute("aria-label", `Mask ${SLOTS[rank]}`);
  const none = make("option", "", "no mask");
  none.value = "";
  const options = view.whatIf.sources.map(({ name, label, lacks }) => {
    const option = make("option", "", lacks ? `${label} (${lacks})` : label);
    option.value = name;
    option.disabled = Boolean(lacks);
    return option;
  });
  select.replaceChildren(none, ...options);
  // What this rollout lacks the values for stays chosen, and says what it needs.
  select.value = slot.name;
  if (select.selectedIndex < 0) select.value = "";
  select.onchange = () => {
    slot.name = select.value;
    slot.source = view.whatIf.sources.find(({ name, lacks }) => name === select.value && !lacks) ?? null;
    fillSlot(view, slot, rank);
    changeMasks(view);
  };
  slot.count = make("div", "mask-count");
  const head = make("div", "slot-head");
  head.append(make("span", `token mask-${SLOTS[rank].toLowerCase()}`, SLOTS[rank]), select);
  slot.box.replaceChildren(head, ...thresholdRows(view, slot), slot.count);
}

function thresholdRows(view, slot) {
  const rule = slot.source?.rule;
  if (!rule) return [];
  const formula = make("div", "mask-formula", rule.formula);
  formula.title = `${rule.formula}\n${rule.source}`;
  return [...thresholdsOf(rule).map((threshold) => thresholdRow(view, slot, threshold)), formula];
}

function numbersOf(view, slot) {
  const { rule } = slot.source;
  slot.numbers[rule.name] ??= rule.name === "ratio_clip" ? { ...view.rollout.clip } : {};
  return slot.numbers[rule.name];
}

function thresholdRow(view, slot, threshold) {
  const row = make("label", "threshold");
  const [slide, field] = [make("input", "slide"), make("input", "number")];
  const numbers = numbersOf(view, slot);
  for (const [input, type] of [[slide, "range"], [field, "number"]]) {
    input.type = type;
    Object.assign(input, { min: threshold.lowest, max: threshold.highest, step: threshold.step });
    if (type === "number") input.step = "any";
    input.value = numbers[threshold.name] ?? threshold.default;
    input.setAttribute("aria-label", `${slot.source.label}, ${threshold.name}`);
    input.oninput = () => {
      if (input.value === "" || Number.isNaN(Number(input.value))) return;
      numbers[threshold.name] = Number(input.value);
      (input === slide ? field : slide).value = input.value;
      changeMasks(view);
    };
  }
  row.append(make("span", "threshold-name", threshold.name), slide, field);
  return row;
}

/** Levels by the masks now; the counts are told on the way. */
function maskLevels(view) {
  const { rollout, whatIf } = view;
  const hits = whatIf.slots.map((slot) =>
    hitsFrom(rollout, slot.source, slot.source?.rule ? numbersOf(view, slot) : null),
  );
  whatIf.hits = hits;
  whatIf.slots.forEach((slot, rank) => showCount(rollout, slot, hits[rank]));
  showAgreement(view, hits);
  return combinedLevels(hits[0], hits[1], rollout.inLoss);
}

function shareWords(count, of) {
  return of ? `${withThousands(count)} (${percent(count / of)})` : "0";
}

function showCount(rollout, slot, hits) {
  const { source } = slot;
  if (!source || !hits) {
    slot.count.textContent = source ? source.lacks : "";
    return;
  }
  const tokens = rollout.inLoss.reduce((sum, code) => sum + (code !== OUTSIDE ? 1 : 0), 0);
  const effect = source.rule?.effect ?? (source.name === "clipped" ? "clipped" : "masked");
  slot.count.textContent = `${shareWords(countHits(hits, rollout.inLoss), tokens)} of ${counted(tokens, "loss token")} ${effect}`;
}

function showAgreement(view, [one, other]) {
  const { rollout, whatIf } = view;
  const rows = [];
  if (one && other) rows.push(...agreementRows("A and B", ["only A", "only B"], one, other, rollout));
  const trainer = metricNamed(rollout, "is_masked");
  whatIf.slots.forEach((slot, rank) => {
    const hits = [one, other][rank];
    if (!trainer || !hits || !slot.source.rule || bothAreThese(whatIf, trainer)) return;
    const recorded = hitsFrom(rollout, { metric: trainer, lacks: "" }, null);
    const name = `${SLOTS[rank]} and the trainer's mask`;
    rows.push(...agreementRows(name, [`only ${SLOTS[rank]}`, "only the trainer"], hits, recorded, rollout));
  });
  whatIf.agreement.replaceChildren(...rows);
}

/** A and B compared already are a rule and the trainer's own mask. */
function bothAreThese(whatIf, trainer) {
  return whatIf.slots.some((slot) => slot.source?.metric === trainer);
}

function agreementRows(title, [onlyOne, onlyOther], one, other, rollout) {
  const counts = compareHits(one, other, rollout.inLoss);
  const alike = counts.tokens ? (counts.both + counts.neither) / counts.tokens : 1;
  const head = make("div", "agreement-title", `${title} agree on ${percent(alike)}`);
  const facts = [
    ["both", counts.both],
    [onlyOne, counts.onlyOne],
    [onlyOther, counts.onlyOther],
    ["neither", counts.neither],
  ].map(([words, count]) => {
    const fact = make("span", "fact", `${words} `);
    fact.append(make("b", "", withThousands(count)));
    return fact;
  });
  const line = make("div", "facts");
  line.append(...facts);
  return [head, line];
}
