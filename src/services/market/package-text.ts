/** The text of a file in a package. */
import { MarketError } from './market-error.ts';

/** Throws MarketError. */
export function toText(path: string, content: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content);
  } catch {
    throw new MarketError(`${path} is no text in UTF-8`);
  }
}
