// Writes the golden files of tokenizers whose vocabulary is a file of tiktoken's format: the ids that tiktoken's own
// implementation (npm `tiktoken`, the Rust crate in WebAssembly) gives with the patterns that the Python classes of
// the models' folders give it.
//
//   node tiktoken.mjs CACHE          checks that the committed goldens are what it gives
//   node tiktoken.mjs CACHE --write  writes them anew
//
// CACHE is as for make.mjs. Each pattern has goldens for two vocabularies: a small one, which is committed, and that of
// gpt4o, which fetch.sh fetches.
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { corpus } from './corpus.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const dir = path.resolve(process.argv[2]);
const write = process.argv.includes('--write');

if (!existsSync(path.join(dir, 'node_modules/tiktoken'))) {
  mkdirSync(dir, { recursive: true });
  execFileSync('npm', ['install', '--silent', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', dir, 'tiktoken@1.0.22'], { stdio: 'inherit' });
}
const { Tiktoken } = createRequire(path.join(dir, 'package.json'))('tiktoken');

const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const [upper, lower] = ['[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]', '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]'];
const word = '[^\\r\\n\\p{L}\\p{N}]?';
const rest = [' ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*', '\\s*[\\r\\n]+', '\\s+(?!\\S)', '\\s+'];
const specials = {
  kimi: (first) => Array.from({ length: 256 }, (_, i) => `<|reserved_token_${first + i}|>`),
  hunyuan: () => ['endoftext', 'startoftext', 'bos', 'eos', 'pad', ...Array.from({ length: 205 }, (_, i) => `extra_${i}`)].map((t) => `<|${t}|>`),
};
const patterns = {
  kimi: ['[\\p{Han}]+', `${word}${upper}*${lower}+${contractions}?`, `${word}${upper}+${lower}*${contractions}?`, '\\p{N}{1,3}', ...rest],
  hunyuan: [contractions, `${word}\\p{L}+`, '\\p{N}', ...rest],
};

let state = 1;
const random = (n) => {
  state = (Math.imul(state, 1103515245) + 12345) >>> 0;
  return Math.floor((state / 2 ** 32) * n);
};

// Texts of characters in no sensible order.
const alphabets = ['aAeE sStTdDmMlLvVrR\'’ſ', '漢字中文〇々あアー', ' \t\n\r\u00a0\u3000\u0085', '0123456789½²٣', 'éÉe\u0301ßǅʰªµ\u0300', '!?.,;:-_()[]{}<>|/\\"', '😀👩‍👧🇩🇪\u200d\ufe0f', 'Привет'];
const texts = [...corpus, 'a<|reserved_token_900|> <|reserved_token_856|><|pad|><|extra_204|>b<|extra_205|>'];
for (let i = 0; i < 150; ++i) {
  let text = '';
  for (let n = 1 + random(12); n > 0; --n) {
    const alphabet = [...alphabets[random(alphabets.length)]];
    for (let m = 1 + random(4); m > 0; --m) text += alphabet[random(alphabet.length)];
  }
  texts.push(text);
}

// Any substrings of the corpus, in any order: some are made by no merge and only ever found as whole pieces.
function smallVocabulary() {
  const tokens = Array.from({ length: 256 }, (_, b) => [(b * 167) % 256]);
  const all = Buffer.from(corpus.join(' '));
  const known = new Set();
  while (known.size < 600) {
    const at = random(all.length - 6);
    const token = [...all.subarray(at, at + 2 + random(random(4) ? 2 : 5))];
    if (known.has(token.join())) continue;
    known.add(token.join());
    tokens.splice(random(tokens.length + 1), 0, token);
  }
  return tokens.map((t) => Buffer.from(t).toString('base64'));
}

// A published byte-level vocabulary is the same in GPT-2's alphabet.
function publishedVocabulary() {
  execFileSync(path.join(here, 'fetch.sh'), [dir, 'gpt4o'], { stdio: 'inherit' });
  const own = (b) => (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
  let next = 0x100;
  const byteOf = new Map(Array.from({ length: 256 }, (_, b) => [String.fromCodePoint(own(b) ? b : next++), b]));
  const { vocab } = JSON.parse(readFileSync(path.join(dir, 'gpt4o/tokenizer.json'), 'utf8')).model;
  const tokens = [];
  for (const [token, id] of Object.entries(vocab)) tokens[id] = Buffer.from([...token].map((c) => byteOf.get(c))).toString('base64');
  return tokens.slice(0, tokens.findIndex((t) => t === undefined)); // special tokens come after a gap
}

const vocabularies = { small: smallVocabulary(), gpt4o: publishedVocabulary() };
const put = (name, text) => {
  const file = path.join(here, 'ids', name);
  if (write) writeFileSync(file, text);
  else if (readFileSync(file, 'utf8') !== text) {
    console.error(`tiktoken.mjs: ${file} differs`);
    process.exitCode = 1;
  }
};
put('small.tiktoken', vocabularies.small.map((t, rank) => `${t} ${rank}\n`).join(''));
for (const [name, tokens] of Object.entries(vocabularies)) {
  for (const [kind, parts] of Object.entries(patterns)) {
    const special = Object.fromEntries(specials[kind](tokens.length).map((t, i) => [t, tokens.length + i]));
    const encoder = new Tiktoken(tokens.map((t, rank) => `${t} ${rank}`).join('\n'), special, parts.join('|'));
    // Hunyuan's class composes first.
    const prepared = (text) => (kind === 'hunyuan' ? text.normalize('NFC') : text);
    put(`tiktoken-${kind}-${name}.jsonl`,
        texts.map((text) => JSON.stringify([text, [...encoder.encode(prepared(text), 'all', [])]])).join('\n') + '\n');
  }
}
console.log(`tiktoken.mjs: ${texts.length} texts ${write ? 'written' : 'checked'}`);
