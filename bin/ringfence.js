#!/usr/bin/env node
// Plain JavaScript that any Node parses, so that an old one gets a sentence and not a stack trace.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const file = (path) => fileURLToPath(new URL(path, import.meta.url));
const entry = existsSync(file('../src')) ? file('../src/cli.ts') : file('../dist/src/cli.js');
const [major, minor] = process.versions.node.split('.').map(Number);
if (major > 24 || (major === 24 && minor >= 15)) await import(entry);
else if (existsSync(file('../node_modules/.bin/node'))) {
  // A checkout brings its own Node.
  const { status } = spawnSync(file('../node_modules/.bin/node'), [file('./ringfence.js'), ...process.argv.slice(2)], { stdio: 'inherit' });
  process.exitCode = status ?? 1;
} else {
  console.error(`ringfence needs Node.js 24.15 or newer; this is ${process.version} (${process.execPath}).`);
  process.exitCode = 78;
}
