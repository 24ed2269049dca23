/**
 * The programs that run npm, each in a sandbox of its own. Node runs them there: JavaScript without modules, for the Node that
 * commands find. Each reads a request from standard input and writes a report to standard output, both JSON.
 */

const SHARED = `
const fs = require("node:fs");
const { spawnSync } = require("node:child_process");
const { createHash } = require("node:crypto");
const request = JSON.parse(fs.readFileSync(0, "utf8"));
const readAt = (path) => { try { return fs.readFileSync(path, "utf8"); } catch { return null; } };
const npmAt = (cwd, args) => {
  const ran = spawnSync("npm", args, { cwd, encoding: "utf8", maxBuffer: 1 << 26, stdio: ["ignore", "pipe", "pipe"] });
  return { code: ran.error ? -1 : ran.status, stdout: ran.stdout || "", stderr: String((ran.error && ran.error.message) || ran.stderr).slice(-8000) };
};
const report = (value) => fs.writeFileSync(1, JSON.stringify(value));
`;

/**
 * Makes the lockfile in a copy of the project, which holds nothing else. The times of publication come from the registry's
 * answers, which npm leaves in a cache that only this run has.
 */
export const PLAN = `${SHARED}${String.raw`
const folder = fs.mkdtempSync("/tmp/plan-");
const [project, cache] = [folder + "/project", folder + "/cache"];
fs.mkdirSync(project);
for (const [name, text] of Object.entries(request.files)) fs.writeFileSync(project + "/" + name, text);
const npm = (args, specs = []) => npmAt(project, [...args, ...request.flags, "--cache=" + cache, "--", ...specs]);
const version = npm(["--version"]).stdout.trim();
const made = npm(request.args, request.specs);
const lock = readAt(project + "/package-lock.json");

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
    return Object.entries(JSON.parse(lock).packages).map(([place, it]) => [it.name || place.replace(/^.*node_modules\//, ""), it.version]);
  } catch {
    return [];
  }
};
if (made.code === 0) {
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
if (made.code === 0 && request.audit) {
  const { stdout } = npm(["audit", "--package-lock-only", "--json"]);
  try {
    audit = JSON.parse(stdout);
  } catch {}
}
report({ version, code: made.code, stderr: made.stderr, manifest: readAt(project + "/package.json"), lock, times, audit });
`}`;

/**
 * Installs exactly what a lockfile says. Refuses if a file of the project is not as it was when the plan was made; puts manifest and
 * lockfile back if npm fails.
 */
export const APPLY = `${SHARED}
const hashOf = (text) => (text === null ? null : "sha256:" + createHash("sha256").update(text).digest("hex"));
const moved = Object.entries(request.before).filter(([name, hash]) => hashOf(readAt(name)) !== hash).map(([name]) => name);
const isLink = (path) => { try { return fs.lstatSync(path).isSymbolicLink(); } catch { return false; } };
if (moved.length > 0) report({ moved });
else if (["package.json", "package-lock.json", "node_modules"].some(isLink)) report({ linked: true });
else {
  const before = Object.keys(request.files).map((name) => [name, readAt(name)]);
  const put = ([name, text]) => (text === null ? fs.rmSync(name, { force: true }) : fs.writeFileSync(name, text));
  let installed;
  try {
    Object.entries(request.files).forEach(put);
    installed = npmAt(".", [...request.args, ...request.flags]);
  } catch (error) {
    installed = { code: -1, stderr: String(error.message) };
  }
  const left = Object.keys(request.files).filter((name) => readAt(name) !== request.files[name]);
  if (installed.code !== 0) {
    try { before.forEach(put); } catch {}
  }
  report({ code: installed.code, stderr: installed.stderr, changed: installed.code === 0 ? left : [] });
}
`;
