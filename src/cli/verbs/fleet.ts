/** Verbs of a fleet: many daemons under one operator. Their code, and the client of the bus, are loaded on demand. */
import type { Command } from 'commander';
import { terminalOf } from './client-verbs.ts';
import { collect, type Verbs } from './verbs.ts';

export function addFleetVerbs(verbs: Verbs): void {
  verbs
    .addOffline('gateway', 'run a gateway: clients connect to it as to a daemon, and it places their sessions on nodes')
    .requiredOption(
      '--fleet <nats://host:port>',
      'the bus of the fleet, which `ringfence fleet join` made it a gateway of',
    )
    .option('--socket <path>', 'where clients connect (default: gateway.sock in the state directory)')
    .option('--state <dir>', 'the state directory with the credential')
    .option('--label <label>', 'a label that nodes must have; repeatable', collect)
    .action(verbs.anywhere(async () => (await import('../fleet/gateway.ts')).gateway));
  const fleet = verbs.addGroup('fleet', 'run many daemons as one fleet: invite machines, watch them, answer, stop');
  addMemberVerbs(verbs, fleet);
  addLookVerbs(verbs, fleet);
  addFetchVerb(verbs, fleet);
  addOrderVerbs(verbs, fleet);
  addInboxVerbs(verbs, fleet);
}

const DIR = ['--dir <folder>', "the fleet's folder (default: ~/.config/ringfence/fleet)"] as const;

function addMemberVerbs(verbs: Verbs, fleet: Command): void {
  const init = () => import('../fleet/init.ts');
  const members = () => import('../fleet/members.ts');
  verbs
    .addOffline('init', 'make a fleet: its keys, certificates and the config of its bus', fleet)
    .requiredOption('--host <name>', 'the name by which machines reach the bus; certificates are for names')
    .option('--port <number>', 'the port of the bus', Number, 4222)
    .option('--name <name>', 'the name of the fleet', 'fleet')
    .option(...DIR)
    .action(verbs.anywhere(async () => (await init()).fleetInit));
  verbs
    .addOffline('hub', 'run the collector of all records, until Ctrl-C', fleet)
    .option(...DIR)
    .action(verbs.anywhere(async () => (await init()).fleetHub));
  verbs
    .addOffline(
      'policy [version]',
      'say which policy nodes must follow, by its version (`ringfence status` shows it) or --bundle; none: any',
      fleet,
    )
    .option('--bundle <file>', 'a policy file, bundle or git:REF:PATH, which is signed and handed out to nodes')
    .option(...DIR)
    .action(verbs.anywhere(async () => (await import('../fleet/policy.ts')).fleetPolicy));
  verbs
    .addOffline('invite <name>', 'print a token that works once, and wait until that machine has joined', fleet)
    .option('--label <label>', 'a label of the machine; repeatable', collect)
    .option('--gateway', 'the machine becomes a gateway, which places sessions on nodes')
    .option('--wait <seconds>', 'how long the token is good for', Number, 600)
    .option(...DIR)
    .action(verbs.anywhere(async () => (await members()).fleetInvite));
  verbs
    .addOffline('join <token>', 'make this machine a node; `-` reads the token from standard input', fleet)
    .option('--state <dir>', "the daemon's state directory")
    .action(verbs.anywhere(async () => (await members()).fleetJoin));
  verbs
    .addOffline('revoke <node>', 'end the membership of a node', fleet)
    .option(...DIR)
    .action(verbs.anywhere(async () => (await members()).fleetRevoke));
}

function addLookVerbs(verbs: Verbs, fleet: Command): void {
  const load = () => import('../fleet/look.ts');
  verbs
    .addOffline('status', 'show whether all nodes are here and all records whole; exit code 0 or 1', fleet)
    .option(...DIR)
    .action(verbs.anywhere(async () => (await load()).fleetStatus));
  verbs
    .addOffline('nodes', 'list the nodes, and what each is doing', fleet)
    .option(...DIR)
    .action(verbs.anywhere(async () => (await load()).fleetNodes));
  verbs
    .addOffline('panel', 'serve the web panel of the fleet on this machine: questions and nodes; until Ctrl-C', fleet)
    .option('--print', 'only print the address')
    .option('--port <n>', 'the port on 127.0.0.1 (default: a free one)')
    .option(...DIR)
    .action(verbs.anywhere(async () => (await import('../fleet/panel/panel.ts')).fleetPanel));
}

function addFetchVerb(verbs: Verbs, fleet: Command): void {
  verbs
    .addOffline('fetch <workspace>', 'get what a session changed, from a workspace that a node keeps', fleet)
    .option('--socket <path>', "the gateway's socket")
    .option('--state <dir>', 'the state directory')
    .option('--as <form>', '`bundle` (of git), `patch`, or `push` to its repository', 'bundle')
    .option('--branch <name>', 'the branch to push')
    .option('--output <file>', 'where to write (default: a file in the current folder)')
    .action(verbs.here(async () => (await import('../fleet/fetch.ts')).fleetFetch));
}

function addOrderVerbs(verbs: Verbs, fleet: Command): void {
  verbs
    .addOffline('call <node> <id>', 'tell what became of a call whose answer was lost; exit code 0 or 1', fleet)
    .option('--result', 'also its result, which the bus can read on its way')
    .option(...DIR)
    .action(verbs.anywhere(async () => (await import('../fleet/orders.ts')).fleetCall));
  const add = (name: string, description: string, order: Parameters<Orders['fleetOrder']>[0]) =>
    verbs
      .addOffline(`${name} [nodes...]`, description, fleet)
      .option('--all', 'all nodes')
      .option(...DIR)
      .action(
        verbs.ending(async (nodes, flags) =>
          (await import('../fleet/orders.ts')).fleetOrder(order, nodes, flags, verbs.caller(flags)),
        ),
      );
  add('kill', 'end all calls of nodes, and let none begin until `fleet resume`', { kind: 'pause', cancel: true });
  add('pause', 'let no call begin on nodes until `fleet resume`; those that run go on', {
    kind: 'pause',
    cancel: false,
  });
  add('resume', 'let calls begin again on nodes', { kind: 'resume' });
  add('drain', 'give nodes no further sessions of the fleet', { kind: 'drain', drain: true });
  add('undrain', 'give nodes sessions of the fleet again', { kind: 'drain', drain: false });
}

type Orders = typeof import('../fleet/orders.ts');

function addInboxVerbs(verbs: Verbs, fleet: Command): void {
  const approvals = fleet.command('approvals').description('answer the questions of all nodes');
  const load = () => import('../fleet/approvals.ts');
  verbs
    .addOffline('list', 'list the questions that wait, as NODE/ID', approvals, { isDefault: true })
    .option(...DIR)
    .action(verbs.anywhere(async () => (await load()).fleetApprovals));
  verbs
    .addOffline('watch', 'answer questions in this terminal until Ctrl-C; with --json, print them', approvals)
    .option(...DIR)
    .action(
      verbs.ending(async (flags) =>
        (await load()).fleetApprovalsWatch(flags, verbs.caller(flags), terminalOf(verbs, flags)),
      ),
    );
  verbs
    .addOffline('approve <id>', 'allow a waiting call, once', approvals)
    .option(...DIR)
    .action(verbs.anywhere(async () => (await load()).fleetApprove));
  verbs
    .addOffline('deny <id>', 'deny a waiting call', approvals)
    .option('--feedback <text>', 'the reason; the agent gets to read it')
    .option(...DIR)
    .action(verbs.anywhere(async () => (await load()).fleetDeny));
}
