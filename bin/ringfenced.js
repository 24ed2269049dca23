#!/usr/bin/env node
// Plain JavaScript that any Node parses, so that an old one gets a sentence and not a stack trace.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { findEntry } from './entry.js';

const [major, minor] = process.versions.node.split('.').map(Number);
const ownNode = fileURLToPath(new URL('../node_modules/.bin/node', import.meta.url));
if (major > 24 || (major === 24 && minor >= 15)) await import(findEntry('main'));
else if (existsSync(ownNode)) {
  // A checkout brings its own Node.
  const args = [fileURLToPath(import.meta.url), ...process.argv.slice(2)];
  process.exitCode = spawnSync(ownNode, args, { stdio: 'inherit' }).status ?? 1;
} else {
  console.error(`ringfence needs Node.js 24.15 or newer; this is ${process.version} (${process.execPath}).`);
  process.exitCode = 78;
}
