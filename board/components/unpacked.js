// A browser takes a message of a megabyte in many pieces: a fifth of that is there sooner.

/** The JSON document that the server packed: board/components/__init__.py. */
async function unpacked(bytes) {
  const { readable, writable } = new DecompressionStream("deflate");
  const writer = writable.getWriter();
  writer.write(bytes);
  writer.close();
  const decoder = new TextDecoder();
  let text = "";
  for (const reader = readable.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return JSON.parse(text + decoder.decode());
    text += decoder.decode(value, { stream: true });
  }
}
