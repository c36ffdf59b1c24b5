// Search for text or a regular expression in a list of texts.

const MOST_HITS = 10_000;
const LONGEST_SEARCH_MS = 2000;

/** Hits as [rank of the text, first character, length]; `error` in words where `query` is no regex. */
function searchTexts(texts, query, isRegex, most) {
  const hits = [];
  if (!query) return { hits, error: "" };
  let pattern;
  try {
    pattern = new RegExp(isRegex ? query : query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), isRegex ? "gim" : "gi");
  } catch (error) {
    return { hits, error: String(error.message).split(": ").at(-1) };
  }
  for (let rank = 0; rank < texts.length; rank++) {
    for (const match of texts[rank].matchAll(pattern)) {
      if (hits.length >= most) return { hits, error: "" };
      if (match[0].length) hits.push([rank, match.index, match[0].length]);
    }
  }
  return { hits, error: "" };
}

/** Calls `take` with what searchTexts finds: a regular expression may never end, so it runs apart. */
function searchApart(view, texts, query, take) {
  stopSearch(view);
  const source = `${searchTexts}\nonmessage = ({ data }) => postMessage(searchTexts(...data));`;
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const worker = new Worker(address);
  URL.revokeObjectURL(address);
  const end = (found) => {
    stopSearch(view);
    take(found);
  };
  const timer = setTimeout(() => end({ hits: [], error: "takes too long" }), LONGEST_SEARCH_MS);
  view.searching = { worker, timer };
  worker.onmessage = ({ data }) => end(data);
  worker.onerror = () => end({ hits: [], error: "could not be run" });
  worker.postMessage([texts, query, true, MOST_HITS]);
}

function stopSearch(view) {
  if (!view.searching) return;
  view.searching.worker.terminate();
  clearTimeout(view.searching.timer);
  view.searching = null;
}
