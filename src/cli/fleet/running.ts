/** What the verbs share that run until a signal ends them. */
import type { Log } from '../../base/powers.ts';
import { harmless, say } from '../output.ts';

export const untilSignal = (): Promise<void> =>
  new Promise((resolve) => {
    for (const it of ['SIGINT', 'SIGTERM'] as const) process.once(it, () => resolve());
  });

const tell = (level: string) => (fields: object, text: string) => say(harmless(`${level}: ${text} ${shown(fields)}`));

/** Log lines on standard error. */
export const sayLog: Log = { debug: () => {}, info: tell('info'), warn: tell('warning'), error: tell('error') };

const shown = (fields: object): string =>
  JSON.stringify(fields, (_, it: unknown) => (it instanceof Error ? it.message : it));
