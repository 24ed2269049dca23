// Loaded before the daemon of a soak: each SIGUSR2 moves its wall clock by some hours, forward and back by turns. The
// monotonic clock goes on, as when a person or NTP sets the machine's clock.
import { isMainThread } from 'node:worker_threads';

const HOUR_MS = 3_600_000;
const JUMPS_HOURS = [6, -9, 30, -26, -1];

if (isMainThread) {
  const now = Date.now.bind(Date);
  let offsetMs = 0;
  let jumps = 0;
  process.on('SIGUSR2', () => {
    offsetMs += (JUMPS_HOURS[jumps++ % JUMPS_HOURS.length] as number) * HOUR_MS;
  });
  Date.now = () => now() + offsetMs;
}
