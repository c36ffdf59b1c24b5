// The page's URL, written as Streamlit writes it: another spelling would be another entry in the history.

function unquoted(text) {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return text;
  }
}

/** As Python's urllib.parse.quote_plus. */
function quoted(text) {
  const hex = (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`;
  return encodeURIComponent(text).replace(/[!'()*]/g, hex).replaceAll("%20", "+");
}

/** The query with some parameters changed, null: left out, in the page's own order. */
function searchWith(parameters, changes) {
  const pairs = new Map();
  for (const part of location.search.slice(1).split("&")) {
    const cut = part.indexOf("=");
    if (cut > 0) pairs.set(unquoted(part.slice(0, cut)), unquoted(part.slice(cut + 1)));
  }
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) pairs.delete(name);
    else pairs.set(name, String(value));
  }
  const names = [...parameters, ...[...pairs.keys()].filter((name) => !parameters.includes(name))];
  const written = names.filter((name) => pairs.has(name));
  return `?${written.map((name) => `${quoted(name)}=${quoted(pairs.get(name))}`).join("&")}`;
}
