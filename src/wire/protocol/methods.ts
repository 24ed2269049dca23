/** Kinds of methods, apart from their shapes, which a client does not load. */
import type { Method } from './messages.ts';

/** Methods that begin something. A daemon that hands over refuses them, and serves the others for what still runs. */
export const BEGINNING_METHODS: ReadonlySet<string> = new Set<Method>([
  'tools.call',
  'tools.batch',
  'calls.undo',
  'checkpoints.return',
  'sessions.attenuate',
  'upgrade',
  'forward.open',
]);

/** Methods that only an operator may use. */
export const OPERATOR_METHODS: ReadonlySet<string> = new Set<Method>([
  'approvals.list',
  'approvals.get',
  'approvals.resolve',
  'approvals.grants',
  'approvals.revoke',
  'approvals.untrusted',
  'audit.query',
  'audit.verify',
  'audit.daily',
  'audit.prune',
  'policy.backtest',
  'policy.reload',
  'providers.accept',
  'tokens.rotate',
  'shutdown',
  'upgrade',
  'calls.find',
  'tools.stats',
  'cache.clear',
  'costs.read',
  'metrics.read',
  'panel.open',
  'panel.sessions',
  'panel.revoke',
  'settings.read',
  'session.quarantine',
  'background.list',
  'forward.open',
  'forward.wait',
  'gateway.pause',
  'gateway.resume',
  'batches.list',
  'batches.get',
  'fleet.admit',
  'fleet.ready',
  'fleet.confirm',
  'fleet.close',
]);
