/** Entry of a tier host. */
import { extname } from 'node:path';
import { silentLog, systemPowers } from '../src/base/powers.ts';
import { IdleHeap } from '../src/hosts/idle-heap.ts';
import { GATEWAY_FD } from './gateway-line.ts';
import { TierHost } from './host/tier-host.ts';
import { establishPerimeter, lastSocketFrom } from './perimeter.ts';

// The sockets of the threads follow, and before them one to the egress proxy if commands may connect.
establishPerimeter(lastSocketFrom(GATEWAY_FD));
// The umask leaves new files the modes that tools choose.
process.umask(0o022);
const moduleAt = (name: string) => new URL(`./${name}${extname(import.meta.url)}`, import.meta.url);
new TierHost(moduleAt('worker'), moduleAt('shadow-thread'));
// This thread has little to do from here on: what its start took goes back.
new IdleHeap(systemPowers(silentLog)).used();
