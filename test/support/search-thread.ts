// A thread that searches for what takes long; for who wants to end it.
import { workerData } from 'node:worker_threads';
import { toolRunner } from './search.ts';

const { workspace, pattern } = workerData as { workspace: string; pattern: string };
await toolRunner({ workspace }).run('file_grep', { pattern });
