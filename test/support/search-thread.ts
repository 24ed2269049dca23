// A thread with a slow search, for tests that end it.
import { workerData } from 'node:worker_threads';
import { toolRunner } from './search.ts';

const { workspace, pattern } = workerData as { workspace: string; pattern: string };
await toolRunner({ workspace }).run('file_grep', { pattern });
