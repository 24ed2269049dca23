/**
 * The programs that run package managers, each in a sandbox of its own. Node runs them there: JavaScript without modules, for the Node
 * that commands find. Each reads a request from standard input and writes a report to standard output, both JSON.
 */

const SHARED = `
const fs = require("node:fs");
const { env } = require("node:process");
const { spawnSync } = require("node:child_process");
const { createHash } = require("node:crypto");
const request = JSON.parse(fs.readFileSync(0, "utf8"));
const tmp = fs.mkdtempSync("/tmp/install-");
const readAt = (path) => { try { return fs.readFileSync(path, "utf8"); } catch { return null; } };
const report = (value) => fs.writeFileSync(1, JSON.stringify(value));
const runAt = (cwd, { words, env: more = {} }) => {
  const filled = (text) => text.replaceAll("{tmp}", tmp).replaceAll("{proxy}", env.HTTP_PROXY || "");
  const own = Object.fromEntries(Object.entries(more).map(([name, value]) => [name, filled(value)]));
  const [program, ...args] = words.map(filled);
  const ran = spawnSync(program, args, { cwd, env: { ...env, ...own }, encoding: "utf8", maxBuffer: 1 << 26, stdio: ["ignore", "pipe", "pipe"] });
  const missing = ran.error && ran.error.code === "ENOENT" ? program : undefined;
  return { missing, code: ran.error ? -1 : ran.status, stdout: ran.stdout || "", stderr: String((ran.error && ran.error.message) || ran.stderr).slice(-8000) };
};
`;

/** Writes the files into an empty folder; what follows runs each step there until one fails, and reads the files that they left. */
const COPIED = `
const project = tmp + "/project";
for (const [name, text] of Object.entries(request.files)) {
  fs.mkdirSync(require("node:path").dirname(project + "/" + name), { recursive: true });
  fs.writeFileSync(project + "/" + name, text);
}
`;
const STEPS_RUN = `
const steps = [];
for (const step of request.steps) {
  steps.push(runAt(project, step));
  if (steps.at(-1).code !== 0) break;
}
const made = steps.length === request.steps.length && steps.at(-1).code === 0;
const files = Object.fromEntries(request.read.map((name) => [name, readAt(project + "/" + name)]));
`;

const STEPS = `${SHARED}${COPIED}${STEPS_RUN}`;

/**
 * Plans by npm in a copy of the project, which holds nothing else, with the report of its audit. Times of publication come from the registry's answers, which npm leaves in a cache
 * that only this run has.
 */
export const NPM_PLAN = `${STEPS}${String.raw`
const cache = tmp + "/cache";
const filesBelow = (at) => {
  try {
    return fs.readdirSync(at, { withFileTypes: true }).flatMap((it) => {
      const path = at + "/" + it.name;
      return it.isDirectory() ? filesBelow(path) : [path];
    });
  } catch {
    return [];
  }
};
const contentOf = (integrity) => {
  const [, algorithm, base64] = /^(sha\d+)-(\S+)/.exec(integrity) || [];
  const hex = Buffer.from(base64 || "", "base64").toString("hex");
  return readAt([cache, "_cacache/content-v2", algorithm, hex.slice(0, 2), hex.slice(2, 4), hex.slice(4)].join("/"));
};
const times = {};
const lockNames = () => {
  try {
    return Object.entries(JSON.parse(files["package-lock.json"]).packages).map(([place, it]) => [it.name || place.replace(/^.*node_modules\//, ""), it.version]);
  } catch {
    return [];
  }
};
if (made) {
  const versions = new Map();
  for (const [name, version] of lockNames()) versions.set(name, [...(versions.get(name) || []), version]);
  for (const file of filesBelow(cache + "/_cacache/index-v5")) {
    for (const line of (readAt(file) || "").split("\n")) {
      try {
        const { key, integrity } = JSON.parse(line.slice(line.indexOf("\t") + 1));
        const url = key.replace(/^make-fetch-happen:request-cache:/, "");
        if (!url.startsWith(request.registry + "/")) continue;
        const name = decodeURIComponent(url.slice(request.registry.length + 1));
        if (!versions.has(name)) continue;
        const { time = {} } = JSON.parse(contentOf(integrity));
        for (const version of versions.get(name)) if (typeof time[version] === "string") times[name + "@" + version] = time[version].slice(0, 64);
      } catch {}
    }
  }
}
let audit = null;
if (made) {
  const { stdout } = runAt(project, request.audit);
  try {
    audit = JSON.parse(stdout);
  } catch {}
}
report({ steps, files, times, audit });
`}`;

/**
 * Installs exactly what a lockfile says. Refuses if a file of the project is not as it was when the plan was made; puts manifest and
 * lockfile back if the manager fails.
 */
export const APPLY = `${SHARED}
const hashOf = (text) => (text === null ? null : "sha256:" + createHash("sha256").update(text).digest("hex"));
const moved = Object.entries(request.before).filter(([name, hash]) => hashOf(readAt(name)) !== hash).map(([name]) => name);
const isLink = (path) => { try { return fs.lstatSync(path).isSymbolicLink(); } catch { return false; } };
const linked = [...Object.keys(request.files), ...request.folders].filter(isLink);
if (moved.length > 0) report({ moved });
else if (linked.length > 0) report({ linked });
else {
  const before = Object.keys(request.files).map((name) => [name, readAt(name)]);
  const put = ([name, text]) => (text === null ? fs.rmSync(name, { force: true }) : fs.writeFileSync(name, text));
  let installed;
  try {
    Object.entries(request.files).forEach(put);
    installed = runAt(".", request.step);
  } catch (error) {
    installed = { code: -1, stderr: String(error.message) };
  }
  const left = Object.keys(request.files).filter((name) => readAt(name) !== request.files[name]);
  if (installed.code !== 0) {
    try { before.forEach(put); } catch {}
  }
  report({ ...installed, stdout: installed.stdout && installed.stdout.slice(-8000), changed: installed.code === 0 ? left : [] });
}
`;

/**
 * Runs the install scripts of a package where npm or pnpm have put it, as they would: in its folder, with the programs of the project.
 * Names outside of `node_modules` are not followed.
 */
export const SCRIPTS = `${SHARED}
const path = require("node:path");
const inside = (at) => { try { return fs.realpathSync(at).startsWith(fs.realpathSync("node_modules") + path.sep); } catch { return false; } };
const stored = (() => { try { return fs.readdirSync("node_modules/.pnpm"); } catch { return []; } })();
const prefix = request.name.replace("/", "+") + "@";
const folders = ["node_modules/" + request.name, ...stored.filter((it) => it.startsWith(prefix)).map((it) => "node_modules/.pnpm/" + it + "/node_modules/" + request.name)];
const ran = [];
for (const folder of new Set(folders.filter(inside).map((it) => fs.realpathSync(it)))) {
  const { scripts = {}, version = "" } = JSON.parse(readAt(folder + "/package.json") || "{}");
  for (const event of ["preinstall", "install", "postinstall"]) {
    if (typeof scripts[event] !== "string" || ran.some((it) => it.exitCode !== 0)) continue;
    const bins = [folder + "/node_modules/.bin", path.resolve("node_modules/.bin")];
    const own = { npm_lifecycle_event: event, npm_package_name: request.name, npm_package_version: String(version), INIT_CWD: path.resolve("."), PATH: [...bins, env.PATH].join(":") };
    const { code, stdout, stderr } = runAt(folder, { words: ["/bin/sh", "-c", scripts[event]], env: own });
    ran.push({ script: event + ": " + scripts[event], exitCode: code === null ? -1 : code, output: (stdout.slice(-4000) + stderr).slice(-8000) });
  }
}
report({ ran });
`;

/**
 * The same for pnpm, whose lockfile has no times. Asks the registry through the proxy that the sandbox has: times of
 * publication, install scripts, licences, and known vulnerabilities. What it does not answer is left out.
 */
export const NODE_PLAN = `${STEPS}
const [http, https, tls] = [require("node:http"), require("node:https"), require("node:tls")];
const proxy = new URL(env.HTTP_PROXY || env.http_proxy || "http://127.0.0.1:3128");
const BYTES = 1 << 26;
const read = (response) => new Promise((done, fail) => {
  const pieces = [];
  let bytes = 0;
  response.on("data", (piece) => { pieces.push(piece); bytes += piece.length; if (bytes > BYTES) response.destroy(new Error("too large")); });
  response.on("end", () => done(response.statusCode === 200 ? JSON.parse(Buffer.concat(pieces).toString("utf8")) : undefined));
  response.on("error", fail);
});
const tunnelTo = (url) => new Promise((done, fail) => {
  const host = url.hostname + ":" + (url.port || 443);
  const asked = http.request({ host: proxy.hostname, port: proxy.port, method: "CONNECT", path: host, headers: { host } });
  asked.on("connect", ({ statusCode }, socket) => {
    if (statusCode !== 200) return fail(new Error("refused"));
    const secure = tls.connect({ socket, servername: url.hostname }, () => done(secure));
    secure.on("error", fail);
  });
  asked.on("error", fail).end();
});
const ask = async (address, { method = "GET", body, headers = {} } = {}) => {
  const url = new URL(address);
  const common = { method, headers: { host: url.host, ...headers }, timeout: 30000 };
  const plain = () => http.request({ ...common, host: proxy.hostname, port: proxy.port, path: url.href });
  const secure = async () => {
    const socket = await tunnelTo(url);
    return https.request({ ...common, host: url.hostname, path: url.pathname + url.search, createConnection: () => socket });
  };
  const asked = url.protocol === "https:" ? await secure() : plain();
  return new Promise((done, fail) => {
    asked.on("response", (response) => read(response).then(done, fail));
    asked.on("timeout", () => asked.destroy(new Error("timeout"))).on("error", fail).end(body);
  });
};
const facts = {};
const factsOf = async ([name, wanted]) => {
  const listing = await ask(request.registry + "/" + name.replace("/", "%2f"));
  for (const version of wanted) {
    const { scripts = {}, hasInstallScript, gypfile, license } = listing.versions[version] || {};
    const hasScript = hasInstallScript === true || gypfile === true || ["preinstall", "install", "postinstall"].some((it) => it in scripts);
    facts[name + "@" + version] = { time: (listing.time || {})[version], hasScript, license };
  }
};
// Names and versions in a lockfile, found by its lines: what is missed here is told to nobody, and has no age.
const versionsIn = (lock) => {
  const found = {};
  for (const { groups } of (lock || "").matchAll(new RegExp(request.lines, "gm"))) (found[groups.name] ||= []).push(groups.version);
  return found;
};
const main = async () => {
  const [before, all] = [request.files[request.lockfile], files[request.lockfile]].map(versionsIn);
  const isNew = (name) => (version) => !(before[name] || []).includes(version);
  const fresh = Object.entries(all).map(([name, list]) => [name, list.filter(isNew(name))]);
  const queue = made ? fresh.filter(([, list]) => list.length > 0) : [];
  const worker = async () => {
    for (let next = queue.pop(); next; next = queue.pop()) await factsOf(next).catch(() => {});
  };
  await Promise.all(Array.from({ length: 12 }, worker));
  const headers = { "content-type": "application/json" };
  const advisories = made && await ask(request.registry + "/-/npm/v1/security/advisories/bulk", { method: "POST", body: JSON.stringify(all), headers }).catch(() => undefined);
  report({ steps, files, facts, advisories });
};
main();
`;
