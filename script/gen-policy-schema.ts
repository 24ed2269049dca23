// Writes policies/policy.schema.json, by which editors check and complete policy files, from src/policy/schema/. Run by `npm run gen`.
import { writeFileSync } from 'node:fs';
import * as z from 'zod';
import { policyFile } from '../src/policy/schema/policy-file.ts';

const text = `${JSON.stringify(z.toJSONSchema(policyFile, { io: 'input' }), null, 2)}\n`;

if (process.argv.includes('--print')) process.stdout.write(text);
else writeFileSync(new URL('../policies/policy.schema.json', import.meta.url), text);
