/** Whether the proxy and the authorities that the environment names, as companies have them, can be used. */
import { existsSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import type { Config } from '../../daemon/config.ts';
import { type DoctorFinding, findingsOf } from './machine.ts';

const REACH_MS = 3000;

/** Findings for what is named; none where the environment names neither. */
export async function judgeNetwork({ outgoing, certificates }: Config): Promise<DoctorFinding[]> {
  const findings: DoctorFinding[] = [];
  if (outgoing) {
    const { ok, problem } = findingsOf('outgoing-proxy');
    const found = `connections go out by the proxy ${outgoing.host}:${outgoing.port} (HTTPS_PROXY)`;
    const why = await whyNot(outgoing);
    const fix = 'Correct HTTPS_PROXY where the daemon starts, or name hosts that need no proxy in NO_PROXY.';
    findings.push(why === undefined ? ok(found) : problem(`${found}, which can't be reached: ${why}`, fix));
  }
  const bad = certificates.filter((it) => !existsSync(it) || !readFileSync(it, 'utf8').includes('BEGIN CERTIFICATE'));
  if (certificates.length > 0) {
    const { ok, warning } = findingsOf('authorities');
    const fix = 'Correct NODE_EXTRA_CA_CERTS or SSL_CERT_FILE where the daemon starts.';
    findings.push(
      bad.length === 0
        ? ok(`trusted beside the machine's: ${certificates.join(', ')}`)
        : warning(`no certificate in PEM: ${bad.join(', ')}`, fix),
    );
  }
  return findings;
}

/** Why no connection can be made; undefined if one can. */
function whyNot({ host, port }: { readonly host: string; readonly port: number }): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: REACH_MS });
    const end = (why: string | undefined) => {
      socket.destroy();
      resolve(why);
    };
    socket.once('connect', () => end(undefined)).once('timeout', () => end('no answer in time'));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
  });
}
