// Writes docs/design-documents.md from test/design-documents. `npm run gen` runs it.
import { writeFileSync } from 'node:fs';
import { page } from '../test/design-documents/rows.ts';

writeFileSync(new URL('../docs/design-documents.md', import.meta.url), page());
