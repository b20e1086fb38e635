// Prints the tokenizer_config.json of a published chat template: that of NAME in chats/templates.json.
//
//   node published_template.mjs PACKAGE NAME
//
// PACKAGE is the unpacked npm package that has the templates, in a list of TypeScript.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import { fileURLToPath } from 'node:url';

const [folder, name] = process.argv.slice(2);
const here = path.dirname(fileURLToPath(import.meta.url));
const { entry, ...tokens } = JSON.parse(readFileSync(path.join(here, 'chats/templates.json'), 'utf8')).templates[name];
const source = readFileSync(path.join(folder, 'src/chat-template-automap.ts'), 'utf8');
const list = vm.runInNewContext(source.slice(source.indexOf('= [') + 2).trim().replace(/;$/, ''));
console.log(JSON.stringify({ chat_template: list.find((t) => t.model === entry).gguf, ...tokens }));
