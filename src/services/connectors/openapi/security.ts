/** The base URL of a connector and its way of signing in, as an OpenAPI document says them. */
import { isRecord } from '../../../base/text/values.ts';
import { type Node, type OpenApiDocument, ReferenceProblem } from './document.ts';

/** A part of the file, and what a person has to do about it. */
export interface Made<T> {
  readonly value: T;
  readonly notes: readonly string[];
}

/** Ways of signing in that one connector may have at once. */
const SCHEMES_MAX = 3;

/** The base URL; undefined if the document names none that secrets may be sent to. */
export function baseOf({ root }: OpenApiDocument): Made<string | undefined> {
  const servers = Array.isArray(root.servers) ? root.servers.filter(isRecord) : [];
  const bases = servers.flatMap((it) => {
    const url = URL.parse(withDefaults(it));
    const isFit = url?.protocol === 'https:' && url.username === '' && url.search === '' && url.hash === '';
    return isFit ? [url.href.replace(/\/+$/, '')] : [];
  });
  const [value, ...others] = bases.filter((it) => it.length <= 2048);
  if (value === undefined)
    return { value, notes: ['the document names no https server: write `base`, or add it with --base URL'] };
  const notes = others.length > 0 ? [`other servers: ${others.slice(0, 5).join(', ')}`] : [];
  return { value, notes };
}

/** The URL of a server with the defaults of its variables in their places. */
function withDefaults({ url, variables }: Node): string {
  if (typeof url !== 'string' || url.length > 2048) return '';
  return url.replaceAll(/\{([^{}]{1,64})\}/g, (whole, name: string) => {
    const variable = isRecord(variables) && Object.hasOwn(variables, name) ? variables[name] : undefined;
    return isRecord(variable) && typeof variable.default === 'string' ? variable.default : whole;
  });
}

type AuthFile = Readonly<Record<string, string>>;

/** `auth` of the file: the first way of signing in that the document asks for everywhere, or the first one that it has. */
export function authOf(document: OpenApiDocument, secret: string): Made<AuthFile | AuthFile[]> {
  const schemes = schemesOf(document);
  const [asked] = Array.isArray(document.root.security) ? document.root.security.filter(isRecord) : [];
  const names = Object.keys(asked ?? {}).filter((it) => schemes.has(it));
  const [first] = schemes.keys();
  const chosen = names.length > 0 ? names : first === undefined ? [] : [first];
  const all = chosen.slice(0, SCHEMES_MAX).map((it, at) => {
    const own = at === 0 ? secret : `${secret}_${at + 1}`;
    return toAuth(schemes.get(it) as Node, own);
  });
  const values = all.flatMap(({ value }) => (value ? [value] : []));
  const [only = { kind: 'none' }] = values;
  const others = [...schemes.keys()].filter((it) => !chosen.includes(it));
  return {
    value: values.length > 1 ? values : only,
    notes: [
      ...all.flatMap(({ notes }) => notes),
      ...(others.length > 0 ? [`other ways of signing in: ${others.slice(0, 5).join(', ')}`.slice(0, 300)] : []),
    ],
  };
}

function schemesOf(document: OpenApiDocument): Map<string, Node> {
  const found = new Map<string, Node>();
  try {
    const schemes = document.objectAt(document.objectAt(document.root.components)?.securitySchemes) ?? {};
    for (const [name, it] of Object.entries(schemes)) {
      const scheme = document.objectAt(it);
      if (scheme) found.set(name, scheme);
    }
  } catch (error) {
    if (!(error instanceof ReferenceProblem)) throw error;
  }
  return found;
}

function toAuth(scheme: Node, secret: string): Made<AuthFile | undefined> {
  const { type, scheme: word, in: place, name } = scheme;
  if (type === 'http' && word === 'basic')
    return { value: { kind: 'basic', secret }, notes: ['`auth` has no user: without one the secret is the user'] };
  if (type === 'http' && typeof word === 'string' && /^bearer$/i.test(word))
    return { value: { kind: 'bearer', secret }, notes: [] };
  if (type === 'apiKey' && typeof name === 'string' && name.length <= 64) {
    if (place === 'query') return { value: { kind: 'query', param: name, secret }, notes: [] };
    if (place === 'header' && /^[A-Za-z0-9!#$%&'*+.^_|~-]+$/.test(name))
      return { value: { kind: 'header', header: name, secret }, notes: [] };
  }
  if (type === 'oauth2' || type === 'openIdConnect') return ofOAuth(scheme, secret);
  return { value: undefined, notes: [`a way of signing in that connectors do not have: ${String(type).slice(0, 40)}`] };
}

function ofOAuth({ flows }: Node, secret: string): Made<AuthFile> {
  const flow = isRecord(flows) && isRecord(flows.clientCredentials) ? flows.clientCredentials : {};
  const url = typeof flow.tokenUrl === 'string' && flow.tokenUrl.length <= 2048 ? URL.parse(flow.tokenUrl) : null;
  if (url?.protocol === 'https:' && url.search === '' && url.username === '')
    return {
      value: { kind: 'oauth2_client', tokenUrl: url.href, clientId: 'CLIENT_ID', secret },
      notes: ['put your client id in place of CLIENT_ID'],
    };
  return {
    value: { kind: 'bearer', secret },
    notes: ['the service signs in by OAuth: the secret is a token that you get there'],
  };
}
