#!/usr/bin/env node
// Plain JavaScript that any Node parses, so that an old one gets a sentence and not a stack trace.
const { versions, execPath, argv } = process;
if (Number.parseInt(versions.node, 10) < 20) {
  console.error(`ringfence needs Node.js 20 or newer; this is v${versions.node} (${execPath}).`);
  process.exit(78);
}
// The MCP bridge is started by clients, often, and loads next to nothing.
const isBridge = argv[2] === 'mcp' && !argv.includes('--help') && !argv.includes('-h');
await import(`../dist/src/entries/${isBridge ? 'mcp-bridge' : 'client-cli'}.js`);
