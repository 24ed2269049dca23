#!/usr/bin/env node
import { start } from './start.js';

// The MCP bridge is started by clients, often, and loads next to nothing.
const [, , verb, ...words] = process.argv;
const isBridge = verb === 'mcp' && !words.some((it) => it === '--help' || it === '-h');
if (isBridge)
  await start('entries/mcp-bridge', [
    'src/entries/mcp-bridge.ts',
    'src/daemon/user-dirs.ts',
    'src/faces/mcp',
    'src/wire/transport',
  ]);
else await start('entries/cli', ['src']);
