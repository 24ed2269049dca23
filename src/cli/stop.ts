import { type Caller, connect } from './connect.ts';
import { EXIT, say } from './output.ts';

/** `ringfence stop`: returns when the daemon has let go of its connections. Gives the exit code. */
export async function stop(caller: Caller): Promise<number> {
  const client = await connect({ ...caller, role: 'operator', flags: { ...caller.flags, autostart: false } });
  await client.request('shutdown', {});
  await client.ended;
  say('the daemon has stopped');
  return EXIT.OK;
}
