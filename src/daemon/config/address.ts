/** The addresses that the settings name. */
import { ConfigError } from './config-error.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Parses `[HOST:]PORT`. Throws ConfigError. */
export function toAddress(flag: string, text: string): Address {
  const match = /^(?:(.+):)?(\d{1,5})$/.exec(text);
  const port = Number(match?.[2]);
  if (!match || port > 65_535)
    throw new ConfigError(`--${flag} must be [HOST:]PORT with a port up to 65535, not ${text}`);
  return { host: match[1]?.replace(/^\[(.*)\]$/, '$1') ?? '127.0.0.1', port };
}
