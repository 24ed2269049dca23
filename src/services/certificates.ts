/** Certificates of authorities that an operator names for a service. */
import { readFileSync } from 'node:fs';

/** The content of a file with certificates in PEM. Throws an Error that names the file and the problem. */
export function readCertificates(path: string, bytesMax: number): string {
  const text = readFileSync(path, 'utf8');
  if (text.length > bytesMax) throw new Error(`${path} has more than ${bytesMax} bytes`);
  if (!text.includes('-----BEGIN CERTIFICATE-----')) throw new Error(`${path} holds no certificates in PEM`);
  return text;
}
