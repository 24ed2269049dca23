/** Validates the params of a request with the schema of its method. */
import { RpcError } from '../base/errors.ts';
import { type Method, params as schemas } from '../wire/protocol/messages.ts';

/** Version of the protocol that this daemon speaks. */
export const PROTOCOL = 1;

/** Most problems reported for one request. */
const ISSUES_TOLD_MAX = 16;

/** The validated params. Throws RpcError INVALID_PARAMS. */
export function parseParams(method: Method, raw: unknown): unknown {
  const parsed = schemas[method].safeParse(raw);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues
    .slice(0, ISSUES_TOLD_MAX)
    .map(({ path, message }) => ({ path: path.join('.'), message }));
  const problemText = issues.map(({ path, message }) => `${path || 'params'}: ${message}`).join('; ');
  throw new RpcError('INVALID_PARAMS', `params of ${method} are not valid: ${problemText}`, { issues });
}

/** Checks the version before the other params, which depend on it. Throws RpcError VERSION_UNSUPPORTED. */
export function assertVersion(raw: unknown): void {
  const { protocol } = (typeof raw === 'object' && raw !== null ? raw : {}) as { protocol?: unknown };
  if (Number.isSafeInteger(protocol) && protocol !== PROTOCOL)
    throw new RpcError('VERSION_UNSUPPORTED', `protocol version ${Number(protocol)} is not supported`, {
      supported: [PROTOCOL],
    });
}
