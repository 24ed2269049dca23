/** The certificates of the bus, made by OpenSSL: an authority of the fleet's own, and one for the name of the server. */
import { join } from 'node:path';
import { harmless, OperatorError } from '../output.ts';

const CA_DAYS = '3650';
const SERVER_DAYS = '825';

export interface CertificateFiles {
  readonly caKey: string;
  /** The folder of the bus, which gets `ca.pem`, `server.key` and `server.pem`. */
  readonly bus: string;
}

/** Makes the authority of a fleet and the certificate of its bus, which is valid for one host name. Throws OperatorError. */
export async function createCertificates(fleet: string, host: string, { caKey, bus }: CertificateFiles): Promise<void> {
  const [ca, key, certificate] = ['ca.pem', 'server.key', 'server.pem'].map((it) => join(bus, it)) as [
    string,
    string,
    string,
  ];
  for (const it of [caKey, key])
    await openssl('genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256', '-out', it);
  const request = ['req', '-x509', '-new', '-config', '/dev/null'];
  await openssl(
    ...[...request, '-key', caKey, '-out', ca, '-subj', `/CN=Ringfence fleet ${fleet}`, '-days', CA_DAYS],
    ...['-addext', 'basicConstraints=critical,CA:TRUE,pathlen:0', '-addext', 'keyUsage=critical,keyCertSign'],
  );
  await openssl(
    ...[...request, '-key', key, '-CA', ca, '-CAkey', caKey, '-out', certificate, '-subj', `/CN=${host}`],
    ...['-days', SERVER_DAYS, '-addext', `subjectAltName=DNS:${host}`],
    ...['-addext', 'basicConstraints=critical,CA:FALSE', '-addext', 'extendedKeyUsage=serverAuth'],
  );
}

async function openssl(...args: string[]): Promise<void> {
  const { execa } = await import('execa');
  const { exitCode, stderr, code } = await execa('openssl', args, { reject: false, stdin: 'ignore', stdout: 'ignore' });
  if (exitCode === 0) return;
  const why = code === 'ENOENT' ? 'it is not installed' : stderr.trim().split('\n').at(-1);
  throw new OperatorError(harmless(`openssl could not make a certificate: ${why}`));
}
