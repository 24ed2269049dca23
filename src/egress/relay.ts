import type { Duplex } from 'node:stream';

/** Passes bytes both ways, each as fast as the other takes them, until both have ended or one broke. */
export function relay(a: Duplex, b: Duplex): void {
  pass(a, b);
  pass(b, a);
}

function pass(from: Duplex, to: Duplex): void {
  from.on('error', () => to.destroy());
  // What ended in order still has to be written out.
  from.on('close', () => {
    if (!from.readableEnded) to.destroy();
  });
  from.pipe(to);
}
