#!/usr/bin/env node
// `ringfence sh` under one name, so that it can be $SHELL. An old Node runs the other program with the same arguments.
import { start } from './start.js';

process.argv.splice(2, 0, 'sh');
await start('entries/cli', new URL('ringfence.js', import.meta.url).href);
