/** Files of connectors, which strangers write and operators add. */

import { defaultLimits } from '../../src/base/limits.ts';
import { FILE, secretUrlsOf, toConnector } from '../../src/services/connectors/connector.ts';
import { PinError } from '../../src/services/pinned/pin-error.ts';
import { problemOfTransport } from '../../src/services/secrets/secrets.ts';
import { holds } from './outcome.ts';
import type { FuzzTarget } from './targets.ts';

/** A short file with this in place of its credentials, and this in place of its output. */
const fileWith = (auth: string, more: string): string =>
  `connector: a\nbase: https://api.test\nauth: ${auth}\noperations:\n  read:\n    description: d\n` +
  '    request: { method: GET, path: "/x/{id}", query: { q: "${input.q}" } }\n' +
  '    input: { id: { type: string, description: d }, q: { type: string, description: d } }\n' +
  `    required: [id]\n    ${more}\n`;

export const connectorTarget: FuzzTarget = {
  seeds: [
    fileWith('{ kind: bearer, secret: a }', 'output: { name: $.name, code: status, next: headers.link }'),
    fileWith(
      '[{ kind: none }, { kind: query, param: k, secret: a }]',
      'output: { a: { each: $.a, fields: { b: $.b } } }',
    ),
    fileWith(
      '{ kind: oauth2_client, tokenUrl: "https://b.test", clientId: c, secret: a }',
      'output: {}\n    effects: [{ kind: spend, usd: "${input.q} / 100" }]\n    paginate: { kind: cursor, param: c, from: $.c }',
    ),
  ],
  words: [
    ...[
      'base: http://127.0.0.1',
      'base: https://user@a.test',
      'base: http://a.test',
      'private: true',
      'auth: ',
      'kind: ',
    ],
    ...['none', 'path', 'query', 'oauth2_client', 'tokenUrl: https://b.test', '{secret}', '{+id}', '${input.id}', '${'],
    ...['$.a[0]', '$[*].b', 'headers.x', 'paginate: { kind: link }', 'required: []', 'effects: [{ kind: spend, usd: "'],
    ...[
      '__proto__: ',
      'constructor: ',
      '&a ',
      '*a',
      '<<: ',
      '!!js ',
      '|\n',
      '? ',
      '\t',
      '\u202e',
      '\x1b[',
      '\r\n',
      '?x=',
      '#',
    ],
  ],
  run(input) {
    try {
      const connector = toConnector({ [FILE]: input.toString() }, defaultLimits, 'fuzz.yaml');
      for (const it of secretUrlsOf(connector))
        holds(problemOfTransport(new URL(it)) === undefined, 'a secret goes by https, or stays on this machine');
      holds(!('private' in connector) && connector.network.length <= 4, 'a connector has few destinations');
      return `accepted ${Object.keys(connector.operations).length} ${connector.auth.map((it) => it.kind).join()}`;
    } catch (error) {
      if (!(error instanceof PinError)) throw error;
      const [first = ''] = error.problems;
      holds(first.startsWith('fuzz.yaml:'), `a problem has its place: ${JSON.stringify(first)}`);
      for (const it of error.problems)
        holds(!/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(it), `a problem can't control a terminal: ${JSON.stringify(it)}`);
      return shapeOfProblem(first);
    }
  },
};

/** A problem without its place and without what comes from the input. */
const shapeOfProblem = (problem: string): string =>
  /takes|is missing|unknown|nested|no parameter|exclude|Invalid|expected|unresolved|unique|YAML|at least|more than|has no|is set by|is no|indent|tag|alias|anchor|flow/i.exec(
    problem.slice('fuzz.yaml:'.length),
  )?.[0] ?? 'another problem';
