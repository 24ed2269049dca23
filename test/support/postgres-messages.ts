/** Messages of a PostgreSQL server, for servers that tests play. */

/** One message, whose header may claim another length. */
export function postgresMessage(tag: string, body: Uint8Array, length = body.length + 4): Buffer {
  const head = Buffer.alloc(5);
  head.write(tag, 'latin1');
  head.writeUInt32BE(length >>> 0, 1);
  return Buffer.concat([head, body]);
}

const READY = postgresMessage('Z', Buffer.from('I'));

/** The answer to a login without a password. */
export const WELCOME = Buffer.concat([
  postgresMessage('R', Buffer.from([0, 0, 0, 0])),
  postgresMessage('K', Buffer.from([0, 0, 0, 1, 0, 0, 0, 2])),
  READY,
]);

/** The answer to the question for roles with rights beyond the database. */
export const NO_ROLES = Buffer.concat([postgresMessage('C', Buffer.from('SELECT 0\0')), READY]);
