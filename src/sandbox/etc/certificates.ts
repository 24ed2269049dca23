/**
 * The authorities that the machine trusts, a company's own among them. curl and git read the machine's store by themselves; Node, pip and
 * Pythons of version managers bring a store of their own, so that they refuse what stands behind a company's proxy.
 */
import { existsSync } from 'node:fs';
import type { Mount } from '../bubblewrap.ts';

/** The store as one file: Debian and Arch, Fedora, Alpine. */
const BUNDLES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/etc/ssl/cert.pem',
];
const bundle = BUNDLES.find((it) => existsSync(it));

/** The store for a sandbox that shows nothing else of /etc. */
export const certificateMounts: readonly Mount[] = bundle === undefined ? [] : [{ kind: 'ro-try', path: bundle }];

/** Variables by which Node of any version and Python trust the machine's authorities too; none if the machine has no store. */
export const certificateVariables: Readonly<Record<string, string>> =
  bundle === undefined
    ? {}
    : { NODE_EXTRA_CA_CERTS: bundle, SSL_CERT_FILE: bundle, REQUESTS_CA_BUNDLE: bundle, PIP_CERT: bundle };
