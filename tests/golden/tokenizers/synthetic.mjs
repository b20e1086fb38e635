// Small tokenizers that use every step the published vocabularies here do not.
import { charsmap } from './charsmap.mjs';

const added = (id, content, more = {}) => ({
  id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...more,
});
const tokenizer = (parts) => ({
  version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null, pre_tokenizer: null,
  post_processor: null, decoder: null, ...parts,
});

const bytes = Array.from({ length: 256 }, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`);
const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;!?-\'"()/<>|_';
const unigramVocab = [
  ['<unk>', 0], ['<s>', 0], ['</s>', 0], ['▁', -2.5],
  ...[...letters].map((c, i) => [c, -6 - (i % 17) / 8]),
  ...['▁the', 'the', '▁He', 'llo', '▁world', 'or', 'ld', 'in', '▁in', 'ing', 'er', 'an', 're', '▁a', 'ab', 'aba', 'abab',
    'aa', 'aaaa', '▁▁', '12', '123', 'ти', 'ен', '世', '世界', 'é', 'e', 'ни', '。'].map((t, i) => [t, -3 - (i * 7 % 13) / 4])
    .filter(([t]) => t !== 'e'),
];
const unigram = (more = {}) => ({ type: 'Unigram', unk_id: 0, vocab: unigramVocab, byte_fallback: false, ...more });
const metaspace = (prepend_scheme, split = true) => ({ type: 'Metaspace', replacement: '▁', prepend_scheme, split });

// Byte-pair merges over plain characters.
function bpe(tokens, merges, more = {}) {
  const vocab = {};
  for (const t of [...tokens, ...merges.map((m) => m.join(''))]) if (!(t in vocab)) vocab[t] = Object.keys(vocab).length;
  return { type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null,
    fuse_unk: false, byte_fallback: false, ignore_merges: false, vocab, merges: merges.map((m) => m.join(' ')), ...more };
}
const pairs = [['t', 'h'], ['th', 'e'], ['i', 'n'], ['in', 'g'], ['a', 'b'], ['ab', 'ab'], ['e', 'r'], ['l', 'l'], ['o', 'r'],
  ['1', '2'], ['12', '3'], ['a', 'n'], ['h', 'e'], ['a', 'a'], ['aa', 'aa'], ['=', '='], ['==', '==']];
const plain = (more = {}) => bpe(['<unk>', '<s>', '</s>', ...letters, '▁', '=', ' ', '\n', 'é', 'ß', '世', '界'], pairs, more);
const alphabet = (() => { // GPT-2's table
  const own = (b) => (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
  let next = 0x100;
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(own(b) ? b : next++));
})();
const byteLevel = (more = {}) => bpe([...alphabet], [...pairs.filter(([a]) => a !== '▁'), ['Ġ', 'the'], ['Ġ', 'a'], ['Ġ', 'Ġ'], ['ĠĠ', 'ĠĠ']], more);
const bl = (more = {}) => ({ type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true, ...more });
const split = (pattern, behavior, invert = false) =>
  ({ type: 'Split', pattern: typeof pattern === 'string' ? { String: pattern } : { Regex: pattern.source }, behavior, invert });
const regex = (source) => ({ source });
const regexSplit = (source) => tokenizer({
  model: byteLevel(), decoder: bl(),
  pre_tokenizer: { type: 'Sequence', pretokenizers: [split(regex(source), 'Isolated'), bl({ use_regex: false })] },
});
const template = (pre, post) => ({
  type: 'TemplateProcessing',
  single: [...pre.map(([id]) => ({ SpecialToken: { id, type_id: 0 } })), { Sequence: { id: 'A', type_id: 0 } },
    ...post.map(([id]) => ({ SpecialToken: { id, type_id: 0 } }))],
  pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }],
  special_tokens: Object.fromEntries([...pre, ...post].map(([id, n]) => [id, { id, ids: [n], tokens: [id] }])),
});

export const synthetic = {
  'unigram-t5': tokenizer({
    normalizer: { type: 'Sequence', normalizers: [
      { type: 'Precompiled', precompiled_charsmap: charsmap([['ﬁ', 'fi'], ['①', '1'], ['e\u0301', 'é'], ['\u0301', ''],
        ['\u200b', ''], ['\t', ' '], ['\n', ' '], ['\u3000', ' '], ['ｆ', 'f'], ['™', 'TM'], ['…', '...'], ['\r\n', 'N'], ['ﾊﾞ', 'バ']]) },
      { type: 'Strip', strip_left: false, strip_right: true },
      { type: 'Replace', pattern: { Regex: ' {2,}' }, content: '▁' }] },
    pre_tokenizer: metaspace('always'), model: unigram(), decoder: metaspace('always'),
    post_processor: template([], [['</s>', 2]]),
    added_tokens: [added(0, '<unk>'), added(1, '<s>'), added(2, '</s>')],
  }),
  'unigram-nllb': tokenizer({
    normalizer: { type: 'Nmt' }, pre_tokenizer: metaspace('first', false), decoder: metaspace('first', false),
    model: { ...unigram({ byte_fallback: true }), vocab: [...unigramVocab, ...bytes.map((b) => [b, -9])] },
    post_processor: template([['<s>', 1]], [['</s>', 2]]),
    added_tokens: [added(0, '<unk>'), added(1, '<s>', { rstrip: true }), added(2, '</s>'),
      added(500, '<pad>', { lstrip: true, rstrip: true }), added(501, '<|im_end|>', { single_word: true, special: false })],
  }),
  'unigram-whitespace': tokenizer({
    normalizer: { type: 'Sequence', normalizers: [{ type: 'NFKD' }, { type: 'StripAccents' }, { type: 'Lowercase' }] },
    pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'WhitespaceSplit' }, metaspace('always')] },
    model: unigram(), decoder: { type: 'Metaspace', replacement: '▁', add_prefix_space: true },
  }),
  'bpe-words': tokenizer({
    normalizer: { type: 'Lowercase' },
    pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'Whitespace' }, { type: 'Punctuation' }, { type: 'Digits', individual_digits: false }] },
    model: plain({ unk_token: '<unk>', fuse_unk: true }), decoder: { type: 'Fuse' },
    added_tokens: [added(0, '<unk>'), added(600, 'World', { normalized: true, special: false }),
      added(601, 'é', { single_word: true, normalized: true, special: false }), added(602, 'im', { single_word: true, special: false })],
  }),
  'bpe-unfused': tokenizer({
    normalizer: { type: 'NFKC' }, pre_tokenizer: { type: 'Punctuation', behavior: 'MergedWithPrevious' },
    model: plain({ unk_token: '<unk>' }), post_processor: { type: 'RobertaProcessing', sep: ['</s>', 2], cls: ['<s>', 1], trim_offsets: true, add_prefix_space: false },
  }),
  'bpe-dropped': tokenizer({
    normalizer: { type: 'NFD' }, pre_tokenizer: { type: 'Digits', individual_digits: true }, model: plain(),
    decoder: { type: 'Sequence', decoders: [{ type: 'Strip', content: 'a', start: 1, stop: 0 }, { type: 'Replace', pattern: { Regex: '[0-9]' }, content: '#' }, { type: 'Fuse' }] },
  }),
  'bpe-suffix': tokenizer({
    pre_tokenizer: split(' ', 'Removed'),
    model: (() => {
      const base = [...letters, 'é'];
      const vocab = ['<unk>', ...base, ...base.map((c) => `${c}</w>`)];
      return bpe(vocab, [['t', 'h'], ['th', 'e</w>'], ['i', 'n'], ['in', 'g</w>'], ['a', 'b</w>']], { unk_token: '<unk>', end_of_word_suffix: '</w>' });
    })(),
    decoder: { type: 'Replace', pattern: { String: '</w>' }, content: ' ' },
  }),
  'bpe-fallback-strip': tokenizer({
    normalizer: { type: 'Sequence', normalizers: [{ type: 'Strip', strip_left: true, strip_right: true }, { type: 'Prepend', prepend: '▁' }, { type: 'Replace', pattern: { String: ' ' }, content: '▁' }] },
    model: bpe(['<unk>', '<s>', '</s>', ...bytes, '▁', ...letters], [...pairs.filter((p) => !p.includes('=') && !p.includes('==')), ['▁', 'the'], ['▁', '▁']], { unk_token: '<unk>', fuse_unk: true, byte_fallback: true }),
    decoder: { type: 'Sequence', decoders: [{ type: 'Replace', pattern: { String: '▁' }, content: ' ' }, { type: 'ByteFallback' }, { type: 'Fuse' }, { type: 'Strip', content: ' ', start: 1, stop: 0 }] },
    added_tokens: [added(0, '<unk>'), added(1, '<s>'), added(2, '</s>', { normalized: true, special: false })],
  }),
  'bytelevel-prefix': tokenizer({
    pre_tokenizer: bl({ add_prefix_space: true }), model: byteLevel(), decoder: bl(), post_processor: bl(),
    added_tokens: [added(700, '<s>', { lstrip: true }), added(701, '<|im_end|>', { rstrip: true })],
  }),
  'bytelevel-normalizer': tokenizer({
    normalizer: { type: 'Sequence', normalizers: [{ type: 'NFC' }, { type: 'ByteLevel' }] }, model: byteLevel(), decoder: bl(),
    added_tokens: [added(700, 'Hello', { normalized: true, special: false }), added(701, 'für é', { normalized: true, special: false })],
  }),
  'split-removed-inverted': tokenizer({ pre_tokenizer: split(regex('\\w+|[^\\w\\s]+'), 'Removed', true), model: plain({ unk_token: '<unk>' }) }),
  'split-previous': tokenizer({ pre_tokenizer: split(regex('[aeiou]'), 'MergedWithPrevious'), model: plain({ unk_token: '<unk>' }) }),
  'split-next': tokenizer({ pre_tokenizer: split('e', 'MergedWithNext'), model: plain({ unk_token: '<unk>' }) }),
  'split-contiguous': tokenizer({ pre_tokenizer: split(regex('[0-9]'), 'Contiguous'), model: plain({ unk_token: '<unk>' }) }),
  'regex-kimi': regexSplit('[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+(?i:\'s|\'t|\'re|\'ve|\'m|\'ll|\'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+'),
  'regex-word': regexSplit('\\b\\w+\\b|\\h{2}|\\d+|\\S'),
  'regex-lines': regexSplit('^.|.$|\\A\\s|[[:digit:]]'.replace('|[[:digit:]]', '|[a-c[x-z]]|[^[a-f]\\s]{,2}')),
  'regex-quantifiers': regexSplit('a{2}?|b{1,2}+|(?<x>\\d)\\k<x>*|[^\\S\\n]+|\\u4e16\\x{754c}|(?m:o.)|\\p{^L}++|.'),
  'regex-possessive': regexSplit("'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"),
};
