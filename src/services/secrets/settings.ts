/** The key `secrets` of config.yaml: programs that give secrets. The file itself never holds one. */
import * as z from 'zod';
import { secretName } from './secret-files.ts';

const word = z.string().min(1).max(4096);

export const secretsSchema = z
  .record(
    secretName,
    z.strictObject({
      command: z
        .array(word)
        .min(1)
        .max(32)
        .describe(
          'A program and its arguments; what it prints is the secret, such as `[secret-tool, lookup, service, stripe]`.',
        ),
    }),
  )
  .refine((it) => Object.keys(it).length <= 64, 'must name at most 64 secrets');

/** Places of secrets besides the state directory. */
export interface SecretSettings {
  /** The program that gives each of these secrets, with its arguments. */
  readonly commands: Readonly<Record<string, readonly string[]>>;
  /** The folder in which systemd puts credentials. */
  readonly credentialsDir?: string | undefined;
  /** The environment of the programs. */
  readonly environment: Readonly<Record<string, string>>;
}

/** What password stores need to find their data and to ask a person. */
const PASSED_ON = [
  'PATH',
  'HOME',
  'LANG',
  'USER',
  'XDG_RUNTIME_DIR',
  'XDG_DATA_HOME',
  'DBUS_SESSION_BUS_ADDRESS',
  'DISPLAY',
  'WAYLAND_DISPLAY',
  'GNUPGHOME',
  'PASSWORD_STORE_DIR',
];

export function toSecretSettings(
  given: z.output<typeof secretsSchema>,
  env: Readonly<Record<string, string | undefined>>,
): SecretSettings {
  const { CREDENTIALS_DIRECTORY: credentialsDir } = env;
  const environment = PASSED_ON.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]]));
  return {
    commands: Object.fromEntries(Object.entries(given).map(([name, { command }]) => [name, command])),
    environment: Object.fromEntries(environment) as Record<string, string>,
    credentialsDir: credentialsDir || undefined,
  };
}
