/** Values of the config file that are secret: where they are, so that the file itself need not hold them. */
import { readFileSync } from 'node:fs';
import * as z from 'zod';

const word = (max: number) => z.string().min(1).max(max);

/** Names the place of a secret: a file, or a variable of the daemon's environment. */
export const secretReference = z.strictObject({
  file: word(4096).optional(),
  env: word(256).optional(),
  prefix: z.string().max(64).default('').describe('Text to put before the value, such as `Bearer `.'),
});

/** A text that is not secret. */
export const openText = z.strictObject({ value: z.string().max(4096).describe('A text that is not secret.') });

/** A value, or the file to read it from each time that it is needed. */
export type SecretSource =
  | { readonly text: string; readonly secret?: string }
  | { readonly file: string; readonly prefix: string };

export interface SecretContext {
  /** The daemon's own environment. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Makes a path of the config file absolute. */
  toPath(path: string): string;
}

/** Resolves a value of the config file. A literal text counts as a secret. Throws an Error that names the problem. */
export function toSecretSource(
  given: string | z.output<typeof secretReference> | z.output<typeof openText>,
  { env, toPath }: SecretContext,
): SecretSource {
  if (typeof given === 'string') return { text: given, secret: given };
  if ('value' in given) return { text: given.value };
  const { file, env: variable, prefix } = given;
  if ((file === undefined) === (variable === undefined))
    throw new Error('a value needs exactly one of `file` and `env`');
  if (file !== undefined) return { file: toPath(file), prefix };
  const text = env[variable as string];
  if (text === undefined) throw new Error(`the daemon's environment has no ${variable}`);
  return { text: prefix + text, secret: text };
}

/** The value now, and the part of it that is secret. Throws the system's error for a file that can't be read. */
export function readSecret(source: SecretSource): { readonly text: string; readonly secret?: string } {
  if ('text' in source) return source;
  const secret = readFileSync(source.file, 'utf8').trim();
  return { text: source.prefix + secret, secret };
}
