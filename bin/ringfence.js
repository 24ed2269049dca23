#!/usr/bin/env node
import { start } from './start.js';

// The MCP bridge is started by clients, often, and loads next to nothing.
const [, , verb, ...words] = process.argv;
const isBridge = verb === 'mcp' && !words.some((it) => it === '--help' || it === '-h');
await start(isBridge ? 'mcp-bridge' : 'cli', import.meta.url);
