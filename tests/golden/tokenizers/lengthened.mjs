// Writes the golden file of what normalizers make longer: the ids that Hugging Face's own implementation gives for every
// code point that a normalizer lengthens, at every place of a text, as one hash for each 256 code points.
//
//   node lengthened.mjs CACHE                   checks that the committed goldens are what it gives
//   node lengthened.mjs CACHE --write           writes them anew
//   node lengthened.mjs CACHE CASE CODEPOINT    prints the ids of one code point (hexadecimal) at each place
//
// CACHE as for make.mjs. A CASE is NORMALIZER/PRE-TOKENIZER, or the name of a published vocabulary.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { load } from './bindings.mjs';
import { charsmap } from './charsmap.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const file = path.join(here, 'lengthened.json');
if (!process.argv[2]) {
  console.error('usage: node lengthened.mjs CACHE [--write | CASE CODEPOINT]');
  process.exit(2);
}
const dir = path.resolve(process.argv[2]);
const { Tokenizer, version } = load(dir);

const places = ['{}', '{}x', 'x{}', ' {}', '{}\u0301x', '{}{} {}', '<s>{}', '{} <s> {}'];

const step = (type, more = {}) => ({ type, ...more });
const sequence = (...normalizers) => step('Sequence', { normalizers });
const chain = (...pretokenizers) => step('Sequence', { pretokenizers });
const prepend = step('Prepend', { prepend: '▁▁' });
const replace = (pattern, content) => step('Replace', { pattern, content });
const split = (pattern) => step('Split', { pattern: { Regex: pattern }, behavior: 'Isolated', invert: false });
const bytes = (add_prefix_space, use_regex) => step('ByteLevel', { add_prefix_space, trim_offsets: true, use_regex });
const metaspace = (prepend_scheme) => step('Metaspace', { replacement: '▁', prepend_scheme, split: true });

const normalizers = {
  NFC: step('NFC'),
  NFD: step('NFD'),
  NFKC: step('NFKC'),
  NFKD: step('NFKD'),
  Lowercase: step('Lowercase'),
  NFKC_Lowercase: sequence(step('NFKC'), step('Lowercase')),
  NFD_StripAccents: sequence(step('NFD'), step('StripAccents')),
  NFC_ByteLevel: sequence(step('NFC'), step('ByteLevel')),
  NFC_Prepend: sequence(step('NFC'), prepend),
  Prepend_Replace: sequence(prepend, replace({ String: ' ' }, '▁')),
  NFKD_Replace: sequence(step('NFKD'), replace({ Regex: '[\\u0300-\\u036f ]' }, '~~')),
  Strip_NFKD: sequence(step('Strip', { strip_left: true, strip_right: true }), step('NFKD')),
  Precompiled: step('Precompiled', { precompiled_charsmap: charsmap([['ﬁ', 'fi-fi'], ['™', 'T M'], ['…', '. . .'], ['é', 'e\u0301'], ['\u0301', ' \u0301'], ['1', 'one']]) }),
};
const preTokenizers = {
  regex: bytes(false, true),
  space_and_regex: bytes(true, true),
  characters: chain(split('\\X'), bytes(false, false)),
  code_points: chain(split('.'), bytes(false, false)),
  space_and_code_points: chain(split('\\p{M}|[^\\p{M}]'), bytes(true, false)),
  first: metaspace('first'),
  code_points_and_first: chain(split('\\p{M}|[^\\p{M}]'), metaspace('first')),
  always: chain(step('Punctuation', { behavior: 'Isolated' }), metaspace('always')),
};

// Byte-pairs of both kinds of bytes: of ByteLevel's alphabet, and <0x..> for what it does not have.
const own = (b) => (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
let next = 0x100;
const alphabet = Array.from({ length: 256 }, (_, b) => String.fromCodePoint(own(b) ? b : next++));
const fallback = Array.from({ length: 256 }, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`);
const base = {
  version: '1.0', truncation: null, padding: null, normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null,
  added_tokens: [{ id: 600, content: '<s>', single_word: false, lstrip: false, rstrip: false, normalized: false, special: true }],
  model: { type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false,
    byte_fallback: true, ignore_merges: false, merges: [],
    vocab: Object.fromEntries([...alphabet, ...fallback, '▁', '~'].filter((t, i, all) => all.indexOf(t) === i).map((t, i) => [t, i])) },
};
const made = (normalizer, pre_tokenizer) => Tokenizer.fromString(JSON.stringify({ ...base, normalizer, pre_tokenizer }));

const size = (text) => Buffer.byteLength(text);
const scalars = (from, to) => Array.from({ length: to - from }, (_, i) => from + i).filter((c) => c < 0xd800 || c > 0xdfff);
function lengthened(normalizer) {
  const rule = made(normalizer, null).getNormalizer();
  return scalars(0, 0x110000).filter((c) => size(rule.normalizeString(String.fromCodePoint(c))) > size(String.fromCodePoint(c)));
}
// Some steps lengthen any character, and what matters is the other step beside them.
const decisive = { NFC_ByteLevel: normalizers.NFC, NFC_Prepend: normalizers.NFC, Prepend_Replace: normalizers.NFC };
// What a prefix lengthens: any character. Those of every kind that pre-tokenizers tell apart stand for them.
const prefixed = [...scalars(0, 0x250), ...scalars(0x2000, 0x2070), ...scalars(0x3000, 0x3040)];
const everywhere = [...new Set([...prefixed, ...lengthened(normalizers.NFC), ...lengthened(normalizers.Lowercase)])];
const sorted = (points) => [...new Set(points)].sort((a, b) => a - b);
function ranges(points) {
  const out = [];
  for (const c of points) {
    if (out.length && out.at(-1)[1] === c - 1) out.at(-1)[1] = c;
    else out.push([c, c]);
  }
  return out;
}

const textsOf = (c) => places.map((place) => place.replaceAll('{}', () => String.fromCodePoint(c)));
const idsOf = async (tokenizer, text) => (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds();

// FNV-1a of 32 bits over ids as numbers, each text's behind -1.
async function hashes(tokenizer, points) {
  const out = {};
  for (const c of points) {
    const block = (c >> 8).toString(16);
    let hash = out[block] ?? 0x811c9dc5;
    for (const text of textsOf(c)) {
      for (const id of [-1, ...(await idsOf(tokenizer, text))]) hash = Math.imul(hash ^ id, 0x01000193) >>> 0;
    }
    out[block] = hash;
  }
  return out;
}

const names = Object.keys(JSON.parse(readFileSync(path.join(here, 'vocabularies.json'), 'utf8')));
function published(name) {
  execFileSync(path.join(here, 'fetch.sh'), [dir, name], { stdio: 'inherit' });
  return Tokenizer.fromFile(path.join(dir, name, 'tokenizer.json'));
}

if (process.argv[4]) {
  const [normalizer, pre] = process.argv[3].split('/');
  const tokenizer = pre ? made(normalizers[normalizer], preTokenizers[pre]) : published(normalizer);
  for (const text of textsOf(parseInt(process.argv[4], 16))) {
    console.log(JSON.stringify(text), JSON.stringify(await idsOf(tokenizer, text)));
  }
  process.exit(0);
}

const out = { tokenizers: version, places, base, normalizers, pre_tokenizers: preTokenizers, points: {}, hashes: {}, published: {} };
for (const [name, normalizer] of Object.entries(normalizers)) {
  const points = sorted([...everywhere, ...lengthened(decisive[name] ?? normalizer)]);
  out.points[name] = ranges(points);
  for (const [pre, preTokenizer] of Object.entries(preTokenizers)) {
    out.hashes[`${name}/${pre}`] = await hashes(made(normalizer, preTokenizer), points);
  }
}
const all = sorted(everywhere);
out.points.published = ranges(all);
for (const name of names) out.published[name] = await hashes(published(name), all);
const text = `{\n${Object.entries(out).map(([k, v]) => `${JSON.stringify(k)}: ` + (['hashes', 'published', 'points', 'normalizers', 'pre_tokenizers'].includes(k)
  ? `{\n${Object.entries(v).map(([n, x]) => ` ${JSON.stringify(n)}: ${JSON.stringify(x)}`).join(',\n')}\n}` : JSON.stringify(v))).join(',\n')}\n}\n`;
if (process.argv.includes('--write')) {
  writeFileSync(file, text);
} else if (readFileSync(file, 'utf8') !== text) {
  console.error(`lengthened.mjs: ${file} differs from what tokenizers ${version} gives`);
  process.exitCode = 1;
}
console.log(`lengthened.mjs: ${Object.keys(out.hashes).length + names.length} cases (tokenizers ${version})`);
