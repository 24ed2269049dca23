#!/usr/bin/env node
import { start } from './start.js';

const [, , verb, ...words] = process.argv;
const asks = (...flags) => words.some((it) => flags.includes(it));
if (verb === 'mcp' && !asks('--help', '-h')) {
  // The MCP bridge is started by clients, often, and loads next to nothing.
  await start('entries/mcp-bridge', [
    'src/entries/mcp-bridge.ts',
    'src/daemon/user-dirs.ts',
    'src/faces/mcp',
    'src/wire/transport',
  ]);
} else if (verb === 'serve' && !asks('--help', '-h', '--detach')) {
  // This process becomes the daemon, so that it has the sockets and the signals of whoever started it.
  process.argv.splice(2, 1, '--foreground');
  await start('entries/main');
} else {
  await start('entries/cli', ['src']);
}
