// Builds SentencePiece's precompiled character map, as base64, from pairs of text and replacement: a NUL-separated pool
// of replacements behind a double-array trie in Darts-clone's layout.
export function charsmap(pairs) {
  const pool = [];
  const root = { children: new Map(), value: null };
  for (const [from, to] of pairs) {
    let node = root;
    for (const byte of Buffer.from(from)) {
      if (!node.children.has(byte)) node.children.set(byte, { children: new Map(), value: null });
      node = node.children.get(byte);
    }
    node.value = pool.length;
    pool.push(...Buffer.from(to), 0);
  }
  const units = new Uint32Array(1 << 16);
  const used = new Set([0]);
  let last = 0;
  const place = (node, at, label) => {
    const labels = [...node.children.keys()];
    if (node.value !== null) labels.push(0);
    let offset = 1;
    // A child lies at (its parent's position) xor offset xor label.
    while (labels.some((l) => used.has(at ^ offset ^ l))) ++offset;
    units[at] = (label | (node.value !== null ? 1 << 8 : 0) | (offset << 10)) >>> 0;
    for (const l of labels) {
      used.add(at ^ offset ^ l);
      last = Math.max(last, at ^ offset ^ l);
    }
    if (node.value !== null) units[at ^ offset] = (node.value | 0x80000000) >>> 0;
    for (const [l, child] of node.children) place(child, at ^ offset ^ l, l);
  };
  place(root, 0, 0);
  last |= 255; // whatever byte follows, the walk stays inside
  const trie = Buffer.alloc(4 * (last + 1));
  for (let i = 0; i <= last; ++i) trie.writeUInt32LE(units[i], 4 * i);
  const size = Buffer.alloc(4);
  size.writeUInt32LE(trie.length);
  return Buffer.concat([size, trie, Buffer.from(pool)]).toString('base64');
}
