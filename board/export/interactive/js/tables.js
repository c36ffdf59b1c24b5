// What tables.py packed, as the tables that the reader's script asks of Streamlit: as much of Arrow's
// interface as it calls.

const TYPES = { Float32Array, Int32Array, Uint8Array };

/** The bytes of an element whose text is their base64, deflated. */
async function bytesOf(element) {
  const deflated = Uint8Array.from(atob(element.textContent), (sign) => sign.charCodeAt(0));
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/** {view, and each table by its name}. */
function unpackedTables(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const { view, tables } = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const at = (Type, [start, bytes]) => new Type(buffer, 4 + length + start, bytes / Type.BYTES_PER_ELEMENT);
  const read = ({ rows, columns }) => ({
    numRows: rows,
    getChild: (name) => columnOf(columns[name], rows, at),
  });
  return { view, ...Object.fromEntries(Object.entries(tables).map(([name, table]) => [name, read(table)])) };
}

function columnOf(spec, rows, at) {
  if (spec.kind === "text") {
    const valueOffsets = new Int32Array(rows + 1);
    at(Int32Array, spec.lengths).forEach((length, i) => (valueOffsets[i + 1] = valueOffsets[i] + length));
    return { data: [{ values: at(Uint8Array, spec.values), valueOffsets, length: rows }] };
  }
  const values = at(TYPES[spec.kind], spec.values);
  const absent = spec.absent && at(Uint8Array, spec.absent);
  return {
    length: rows,
    nullCount: spec.nulls,
    get: (i) => (absent?.[i] ? null : values[i]),
    toArray: () => values,
  };
}
