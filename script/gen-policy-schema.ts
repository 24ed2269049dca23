// Writes policies/policy.schema.json, with which editors check policy files, from src/policy/schema.ts. Run by `npm run gen`.
import { writeFileSync } from 'node:fs';
import * as z from 'zod';
import { policyFile } from '../src/policy/schema.ts';

const { $schema, ...schema } = z.toJSONSchema(policyFile, { io: 'input' });
const text = `${JSON.stringify({ $schema, title: 'A policy of Ringfence', ...schema }, null, 2)}\n`;

if (process.argv.includes('--print')) process.stdout.write(text);
else writeFileSync(new URL('../policies/policy.schema.json', import.meta.url), text);
