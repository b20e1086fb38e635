// Writes small models of SentencePiece, and the golden files of tokenizers that have no other file: the pieces that
// SentencePiece itself (npm `@agnai/sentencepiece-js`, the C++ library in WebAssembly) cuts texts into.
//
//   node sentencepiece.mjs CACHE          checks that the committed files are what it gives
//   node sentencepiece.mjs CACHE --write  writes them anew
//
// CACHE is as for make.mjs.
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { charsmap } from './charsmap.mjs';
import { corpus } from './corpus.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const dir = path.resolve(process.argv[2]);
const write = process.argv.includes('--write');

if (!existsSync(path.join(dir, 'node_modules/@agnai/sentencepiece-js'))) {
  mkdirSync(dir, { recursive: true });
  execFileSync('npm', ['install', '--silent', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', dir, '@agnai/sentencepiece-js@1.1.1'], { stdio: 'inherit' });
}
const { SentencePieceProcessor } = createRequire(path.join(dir, 'package.json'))('@agnai/sentencepiece-js');

let state = 1;
const random = (n) => {
  state = (Math.imul(state, 1103515245) + 12345) >>> 0;
  return Math.floor((state / 2 ** 32) * n);
};

// Protobuf.
const varint = (n) => (n < 128 ? [n] : [(n % 128) | 128, ...varint(Math.floor(n / 128))]);
const number = (field, n) => [...varint(field * 8), ...varint(n)];
const bytes = (field, b) => [...varint(field * 8 + 2), ...varint(b.length), ...b];
const float = (field, x) => [...varint(field * 8 + 5), ...new Uint8Array(new Float32Array([x]).buffer)];

const [UNKNOWN, CONTROL, USER, BYTE] = [2, 3, 4, 6];

// All characters of the corpus that are no rare ones, and any substrings, with scores in no order.
function model({ byteFallback, dummyPrefix, extra, map }) {
  const pieces = [['<unk>', UNKNOWN], ['<s>', CONTROL], ['</s>', CONTROL], ['<|user|>', USER], ['<|user|>▁', USER], ['er▁w', USER]];
  if (byteFallback) for (let b = 0; b < 256; ++b) pieces.push([`<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`, BYTE]);
  const text = [...corpus.filter((t) => !t.includes('\0')).join(' ').replaceAll(' ', '▁')];
  const counts = new Map();
  for (const c of text) counts.set(c, (counts.get(c) ?? 0) + 1);
  const known = new Set(pieces.map(([t]) => t));
  const add = (t, score) => {
    if (known.has(t)) return;
    known.add(t);
    pieces.push([t, 1, score]);
  };
  for (const [c, n] of counts) if (n > 1 || c < '\u007f') add(c, -1e4 - pieces.length);
  for (let i = 0; i < 700; ++i) {
    const at = random(text.length - 8);
    const t = text.slice(at, at + 2 + random(random(3) ? 2 : 6));
    if (t.every((c) => known.has(c))) add(t.join(''), -random(400)); // equal scores too
  }
  const spec = map ? bytes(2, Buffer.from(map, 'base64')) : [];
  return Buffer.from([
    ...pieces.flatMap(([t, kind, score = 0]) => bytes(1, [...bytes(1, Buffer.from(t)), ...float(2, score), ...number(3, kind)])),
    ...bytes(2, [...number(3, 2), ...number(35, byteFallback ? 1 : 0), ...number(40, 0), ...number(41, 1), ...number(42, 2)]),
    ...bytes(3, [...bytes(1, Buffer.from(map ? 'user_defined' : 'identity')), ...spec, ...number(3, dummyPrefix ? 1 : 0), ...number(4, extra ? 1 : 0), ...number(5, 1)]),
  ]);
}

const models = {
  llama: model({ byteFallback: true, dummyPrefix: true, extra: false }),
  plain: model({ byteFallback: false, dummyPrefix: false, extra: false }),
  trimmed: model({ byteFallback: true, dummyPrefix: true, extra: true,
    map: charsmap([['ﬁ', 'fi'], ['①', '1'], ['\t', ' '], ['\n', ' '], ['\u3000', ' '], ['…', '...'], ['\u200b', '']]) }),
};

const texts = corpus.filter((t) => !t.includes('\0')); // the bindings end texts there
texts.push('a<|user|> b<|user|>c <|user|>', 'answer word er w', '▁▁ x ▁', '\u{1f600}'.repeat(3) + 'é', 'ĳĳ ﬁﬁ');
const put = (name, content) => {
  const file = path.join(here, 'ids', name);
  if (write) writeFileSync(file, content);
  else if (!readFileSync(file).equals(Buffer.from(content))) {
    console.error(`sentencepiece.mjs: ${file} differs`);
    process.exitCode = 1;
  }
};
for (const [name, content] of Object.entries(models)) {
  put(`${name}.sentencepiece`, content);
  const processor = new SentencePieceProcessor();
  await processor.load(path.join(here, 'ids', `${name}.sentencepiece`));
  put(`sentencepiece-${name}.jsonl`, texts.map((t) => JSON.stringify([t, processor.encodeIds(t)])).join('\n') + '\n');
}
console.log(`sentencepiece.mjs: ${texts.length} texts ${write ? 'written' : 'checked'}`);
