/** Builds the web panel's page into dist/panel; with `--watch`, again after each change. Part of `npm run build`. */
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const configFile = fileURLToPath(new URL('../panel/vite.config.ts', import.meta.url));
await build({ configFile, logLevel: 'warn', build: { watch: process.argv.includes('--watch') ? {} : null } });
