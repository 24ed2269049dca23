/** The config of nats-server, made from the roster: who may connect, and what each may publish and hear. */
import { join } from 'node:path';
import { defaultLimits } from '../base/limits.ts';
import { LEASES_BYTES_MAX, leasesOf } from './leases.ts';
import type { Member, Roster } from './roster.ts';
import { inboxOf, subjects } from './subjects.ts';

export interface BusSettings {
  readonly host: string;
  readonly port: number;
  /** Absolute path of the folder with the certificate and the key of the server. */
  readonly folder: string;
}

/** The file of the server, which includes `users.conf`. */
export const serverConfig = ({ host, port, folder }: BusSettings): string => `# Written by \`ringfence fleet init\`.
server_name: ${quoted(host)}
host: ${quoted(host === 'localhost' ? '127.0.0.1' : '0.0.0.0')}
port: ${port}
pid_file: ${quoted(join(folder, 'nats-server.pid'))}
max_payload: 1048576
write_deadline: "2s"
tls {
  cert_file: ${quoted(join(folder, 'server.pem'))}
  key_file: ${quoted(join(folder, 'server.key'))}
  timeout: 5
}
jetstream {
  store_dir: ${quoted(join(folder, 'leases'))}
  max_memory_store: 16777216
  max_file_store: ${2 * defaultLimits.fleetMembersMax * LEASES_BYTES_MAX}
}
include "users.conf"
`;

/** What a node needs to take and renew leases. */
const leasing = (name: string): string[] => {
  const store = leasesOf(name);
  const reading = [`STREAM.INFO.KV_${store}`, `STREAM.MSG.GET.KV_${store}`, `DIRECT.GET.KV_${store}.>`];
  return [`$KV.${store}.*`, ...reading.map((it) => `$JS.API.${it}`)];
};

/** Subjects that a user may publish, and those that it may subscribe to; everything else is refused. */
interface Permissions {
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
}

const PERMISSIONS: Record<Member['role'], (name: string) => Permissions> = {
  node: (name) => ({
    publish: [
      ...[subjects.heartbeat(name), subjects.questions(name), subjects.audit(name), subjects.roster, subjects.policy],
      ...[subjects.toGateway('*', name, '*'), ...leasing(name)],
    ],
    subscribe: [subjects.order(name), subjects.open(name), subjects.toNode(name, '*')],
  }),
  gateway: (name) => ({
    publish: [subjects.roster, subjects.open('*'), subjects.toNode('*', '*')],
    subscribe: [subjects.heartbeat('*'), subjects.toGateway(name, '*', '*')],
  }),
  hub: () => ({
    publish: ['INFO', 'STREAM.INFO.*', 'STREAM.CREATE.*'].map((it) => `$JS.API.${it}`),
    subscribe: [subjects.heartbeat('*'), subjects.audit('*'), subjects.hubStatus, subjects.roster, subjects.policy],
  }),
  operator: () => ({
    publish: [subjects.order('*'), subjects.hubStatus],
    subscribe: [subjects.heartbeat('*'), subjects.questions('*'), subjects.join('*')],
  }),
};

/** `users.conf`: the users of the bus with their permissions. */
export function usersConfig({ members, invitations, version }: Roster): string {
  const users = [
    ...members.map(({ name, role, key }) => userOf(key, inboxOf(role, name), PERMISSIONS[role](name))),
    ...invitations.map(({ id, key }) =>
      userOf(key, inboxOf('join', id), { publish: [subjects.join(id)], subscribe: [] }),
    ),
  ];
  return `# Written by \`ringfence fleet\` from version ${version} of the roster.\nauthorization {\n  users = [\n${users.join('')}  ]\n}\n`;
}

/** Only who was asked may answer, once for each request. */
const userOf = (key: string, inbox: string, { publish, subscribe }: Permissions): string => `    {
      nkey: ${key}
      permissions {
        publish { ${publish.length > 0 ? `allow: ${list(publish)}` : 'deny: [">"]'} }
        subscribe { allow: ${list([...subscribe, `${inbox}.>`])} }
        allow_responses { max: 1, expires: "1m" }
      }
    }
`;

const list = (items: readonly string[]): string => `[${items.map(quoted).join(', ')}]`;

/** A text in the syntax of the config, whose escapes are those of JSON. */
const quoted = (text: string): string => JSON.stringify(text);
