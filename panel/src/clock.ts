/** The time, for what is shown in words: one timer for the page. */
import { signal } from '@preact/signals';

export const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, 1_000);

/** `3 s`, `12 min`, `4 h`, `2 days`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 90) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} days`;
}

const clockOf = (time: Date): string => time.toLocaleTimeString([], { hourCycle: 'h23' });

/** The time of day, with the date if it was on another day. */
export function timeOf(iso: string): string {
  const time = new Date(iso);
  const isToday = time.toDateString() === new Date(now.value).toDateString();
  return isToday
    ? clockOf(time)
    : `${time.toLocaleDateString([], { month: 'short', day: 'numeric' })} ${clockOf(time)}`;
}

/** `0.4 ms`, `12 ms`, `1.2 s`, `3 min`. */
export function preciseDuration(ms: number): string {
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : duration(ms);
}

const GiB = 1024 ** 3;

/** `512 B`, `12 KiB`, `3.4 MiB`, `2.5 GiB`. */
export function bytes(count: number): string {
  if (count < 1024) return `${count} B`;
  if (count < 1024 * 1024) return `${Math.round(count / 1024)} KiB`;
  return count < GiB ? `${(count / 1024 / 1024).toFixed(1)} MiB` : `${(count / GiB).toFixed(1)} GiB`;
}
