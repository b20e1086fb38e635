// Hugging Face's own implementation: npm `tokenizers`, the Rust crate's bindings.
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';

const bindings = 'tokenizers@0.23.2';

// Loads them from the folder `dir`, where npm puts them first if they are not there.
export function load(dir) {
  if (!existsSync(path.join(dir, 'node_modules/tokenizers'))) {
    mkdirSync(dir, { recursive: true });
    execFileSync('npm', ['install', '--silent', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', dir, bindings], { stdio: 'inherit' });
  }
  const require = createRequire(path.join(dir, 'package.json'));
  return { Tokenizer: require('tokenizers').Tokenizer, version: require('tokenizers/package.json').version };
}
