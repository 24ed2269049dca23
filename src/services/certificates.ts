/** Certificates of authorities that an operator names for a service. */
import { readFileSync } from 'node:fs';
import { KiB } from '../base/limits/units.ts';

/** Largest file of certificates; each request to the service brings it along. */
const BYTES_MAX = 256 * KiB;

/** The content of a file with certificates in PEM. Throws what `refusal` makes of an error that names the file and the problem. */
export function readCertificates(path: string, refusal: (cause: Error) => Error): string {
  try {
    const text = readFileSync(path, 'utf8');
    if (text.length > BYTES_MAX) throw new Error(`${path} has more than ${BYTES_MAX} bytes`);
    if (!text.includes('-----BEGIN CERTIFICATE-----')) throw new Error(`${path} holds no certificates in PEM`);
    return text;
  } catch (error) {
    throw refusal(error as Error);
  }
}
