#!/usr/bin/env node
import { start } from './start.js';

await start('main', import.meta.url);
