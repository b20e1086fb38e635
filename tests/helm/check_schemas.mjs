// Checks manifests, a JSON list on stdin, against the schemas in FOLDER/node_modules. Prints a line for each fault.
//
//   node check_schemas.mjs FOLDER
//
// The schemas are compiled: functions that read an object and list what is wrong. They say nothing of members that no
// schema has, as a misspelt one. So each object is handed over in a wrapper that notes which members are read: one that
// is there and was never read is unknown.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const folder = resolve(process.argv[2], "node_modules");

// What the schemas import of the package that checks formats, lengths and patterns. A quantity is Kubernetes' own: "500m".
const validate = resolve(folder, "@kubernetes-models", "validate");
const files = {
  "package.json": '{"name": "@kubernetes-models/validate", "type": "module", "exports": {".": "./index.js", "./runtime/*": "./runtime/*.js"}}',
  "index.js": `
const any = { validate: Object.assign(() => true, { test: () => true }) };
const quantity = { validate: /^[+-]?[0-9.]+([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$/ };
export const formats = new Proxy({}, { get: (_, name) => (name === "quantity" ? quantity : any) });
`,
  "runtime/ucs2length.js": "export default (text) => [...text].length;\n",
  "runtime/re2.js":  // called as a constructor; Go's patterns begin with (?i) where case is no matter
    "export default function pattern(text) { return new RegExp(text.replace('(?i)', ''), text.includes('(?i)') ? 'iu' : 'u'); }\n",
};
mkdirSync(resolve(validate, "runtime"), { recursive: true });
for (const [name, text] of Object.entries(files)) writeFileSync(resolve(validate, name), text);

const groups = {
  "": ["kubernetes-models", "IoK8sApiCore"],
  apps: ["kubernetes-models", "IoK8sApiApps"],
  batch: ["kubernetes-models", "IoK8sApiBatch"],
  autoscaling: ["kubernetes-models", "IoK8sApiAutoscaling"],
  policy: ["kubernetes-models", "IoK8sApiPolicy"],
  "networking.k8s.io": ["kubernetes-models", "IoK8sApiNetworking"],
  "gateway.networking.k8s.io": ["@kubernetes-models/gateway-api", "IoK8sSigsGatewayApiApis"],
  "keda.sh": ["@kubernetes-models/keda", "ComGithubKedacoreKedaV2ApisKeda"],
  "monitoring.coreos.com": ["@kubernetes-models/prometheus-operator", "ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoring"],
};

async function validatorOf({ apiVersion, kind }) {
  const [group, version] = apiVersion.includes("/") ? apiVersion.split("/") : ["", apiVersion];
  if (!(group in groups)) throw new Error(`no schemas of ${apiVersion}`);
  const [name, prefix] = groups[group];
  const file = resolve(folder, name, "_schemas", `${prefix}${version[0].toUpperCase()}${version.slice(1)}${kind}.js`);
  return (await import(pathToFileURL(file))).validate;
}

const freeForm = new Set(["/metadata/annotations", "/metadata/labels"]);

/** A wrapper of `value` that notes in `seen` the paths that are read. */
function watched(value, path, seen) {
  if (value === null || typeof value !== "object") return value;
  return new Proxy(value, {
    get(target, key) {
      const item = target[key];
      if (typeof key !== "string" || !Object.prototype.hasOwnProperty.call(target, key) || typeof item === "function") return item;
      seen.add(`${path}/${key}`);
      return watched(item, `${path}/${key}`, seen);
    },
  });
}

function* unread(value, path, seen) {
  if (value === null || typeof value !== "object") return;
  for (const [key, item] of Object.entries(value)) {
    const place = `${path}/${key}`;
    if (Array.isArray(value) ? false : !seen.has(place)) yield place;
    else yield* unread(item, place, seen);
  }
}

let faults = 0;
for (const manifest of JSON.parse(readFileSync(0, "utf8"))) {
  const name = `${manifest.kind}/${manifest.metadata?.name}`;
  const say = (text) => { ++faults; console.log(`${name}: ${text}`); };
  let check;
  try {
    check = await validatorOf(manifest);
  } catch (error) {
    say(error.message);
    continue;
  }
  const seen = new Set();
  check(watched(manifest, "", seen));
  for (const error of check.errors ?? []) {
    const { allowedValues, missingProperty, pattern, type } = error.params;
    say(`${error.instancePath || "/"}: ${error.keyword} ${JSON.stringify(allowedValues ?? missingProperty ?? pattern ?? type ?? error.params)}`);
  }
  for (const place of unread(manifest, "", seen)) if (!freeForm.has(place)) say(`${place}: unknown member`);
}
process.exitCode = faults === 0 ? 0 : 1;
