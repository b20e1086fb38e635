// Converts a SentencePiece model to a tokenizer.json as transformers' SpmConverter does.
//
//   node spm.mjs MODEL OUT.json
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

// The fields of a protobuf message: [number, wire type, value] each.
function* fields(buffer) {
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return Number(BigInt.asIntN(64, value));
    }
  };
  while (at < buffer.length) {
    const key = varint();
    const wire = key & 7;
    let value;
    if (wire === 0) value = varint();
    else if (wire === 1) { value = buffer.subarray(at, at + 8); at += 8; }
    else if (wire === 5) { value = buffer.readFloatLE(at); at += 4; }
    else { const size = varint(); value = buffer.subarray(at, at + size); at += size; }
    yield [key >> 3, value];
  }
}

function readModel(buffer) {
  const model = { pieces: [], type: 1, unk: 0, byteFallback: false, charsmap: '' };
  for (const [number, value] of fields(buffer)) {
    if (number === 1) {
      const piece = { text: '', score: 0, kind: 1 };
      for (const [n, v] of fields(value)) {
        if (n === 1) piece.text = v.toString('utf8');
        else if (n === 2) piece.score = v;
        else if (n === 3) piece.kind = v;
      }
      model.pieces.push(piece);
    } else if (number === 2) {
      for (const [n, v] of fields(value)) {
        if (n === 3) model.type = v;
        else if (n === 35) model.byteFallback = v !== 0;
        else if (n === 40) model.unk = v;
      }
    } else if (number === 3) {
      for (const [n, v] of fields(value)) if (n === 2) model.charsmap = v.toString('base64');
    }
  }
  return model;
}

// SentencePiece's BPE keeps no merges: every way to cut an entry into two others is one, best score first.
function merges(vocab, scores) {
  const all = [];
  for (const [text, score] of scores) {
    const chars = [...text];
    const local = [];
    for (let i = 1; i < chars.length; ++i) {
      const [left, right] = [chars.slice(0, i).join(''), chars.slice(i).join('')];
      if (vocab.has(left) && vocab.has(right)) local.push([left, right, score, i, chars.length - i]);
    }
    local.sort((a, b) => vocab.get(a[0]) - vocab.get(b[0]) || vocab.get(a[1]) - vocab.get(b[1]));
    all.push(...local);
  }
  all.sort((a, b) => b[2] - a[2] || b[3] - a[3] || b[4] - a[4]);
  return all.map(([l, r]) => [l, r]);
}

export function convert(buffer, albert) {
  const model = readModel(buffer);
  const unk = model.pieces[model.unk].text;
  const metaspace = { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true };
  const replace = (pattern, content) => ({ type: 'Replace', pattern, content });
  const precompiled = model.charsmap ? [{ type: 'Precompiled', precompiled_charsmap: model.charsmap }] : [];
  const special = model.pieces.map((p, id) => ({ ...p, id })).filter((p) => p.kind === 2 || p.kind === 3 || p.kind === 4);
  const id = (text) => model.pieces.findIndex((p) => p.text === text);
  const around = albert ? ['[CLS]', '[SEP]'] : ['</s>'];
  const place = (text) => ({ SpecialToken: { id: text, type_id: 0 } });
  const sequence = { Sequence: { id: 'A', type_id: 0 } };
  const vocab = new Map(model.pieces.map((p, i) => [p.text, i]));
  return {
    version: '1.0', truncation: null, padding: null,
    added_tokens: special.map((p) => ({ id: p.id, content: p.text, single_word: false, lstrip: p.text === '[MASK]',
      rstrip: false, normalized: false, special: true })),
    normalizer: { type: 'Sequence', normalizers: albert
      ? [replace({ String: '``' }, '"'), replace({ String: "''" }, '"'), { type: 'NFKD' }, { type: 'StripAccents' },
        { type: 'Lowercase' }, ...precompiled, replace({ Regex: ' {2,}' }, ' ')]
      : [...precompiled, replace({ Regex: ' {2,}' }, '▁')] },
    pre_tokenizer: metaspace,
    post_processor: { type: 'TemplateProcessing',
      single: albert ? [place('[CLS]'), sequence, place('[SEP]')] : [sequence, place('</s>')],
      pair: [sequence, { Sequence: { id: 'B', type_id: 1 } }],
      special_tokens: Object.fromEntries(around.map((t) => [t, { id: t, ids: [id(t)], tokens: [t] }])) },
    decoder: metaspace,
    model: model.type === 1
      ? { type: 'Unigram', unk_id: model.unk, vocab: model.pieces.map((p) => [p.text, p.score]), byte_fallback: model.byteFallback }
      : { type: 'BPE', dropout: null, unk_token: unk, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: true,
        byte_fallback: model.byteFallback, ignore_merges: false, vocab: Object.fromEntries(vocab),
        merges: merges(vocab, model.pieces.map((p) => [p.text, p.score])) },
  };
}

export const convertFile = (file) => convert(readFileSync(file), path.basename(file) === 'spiece.model');

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(process.argv[3], JSON.stringify(convertFile(process.argv[2])));
}
