/** Starts Chromium so that it confines its renderers itself, reaches nothing past the proxy, and does nothing unasked. */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import type { Limits } from '../../src/base/limits.ts';
import type { BrowserSetup } from '../../src/services/web/browser/messages.ts';
import { BrowserEnded, DevTools } from './devtools.ts';

/** Descriptors of the DevTools protocol in Chromium: where it reads commands, and where it writes messages. */
const COMMANDS_FD = 3;
const MESSAGES_FD = 4;

const PROFILE = '/tmp/profile';

/** Features that ask servers of Google, or other devices, for something. */
const UNWANTED = [
  ...['Translate', 'OptimizationHints', 'MediaRouter', 'DialMediaRouteProvider', 'NetworkTimeServiceQuerying'],
  ...['InterestFeedContentSuggestions', 'CertificateTransparencyComponentUpdater', 'AutofillServerCommunication'],
];

/** Switches of Chromium. `--no-sandbox` is none of them, nor one that weakens its sandbox. */
const switchesOf = ({ proxy }: BrowserSetup): string[] => [
  '--headless',
  '--remote-debugging-pipe',
  `--user-data-dir=${PROFILE}`,
  '--no-startup-window',
  '--no-first-run',
  '--no-default-browser-check',
  // Everything goes through the proxy, loopback too, and only the proxy looks up names.
  `--proxy-server=${proxy}`,
  '--proxy-bypass-list=<-loopback>',
  `--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE ${new URL(proxy).hostname}`,
  '--disable-quic',
  '--force-webrtc-ip-handling-policy=disable_non_proxied_udp',
  '--no-pings',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-client-side-phishing-detection',
  '--disable-domain-reliability',
  '--disable-sync',
  '--disable-extensions',
  '--disable-default-apps',
  '--disable-breakpad',
  '--disable-crash-reporter',
  '--disable-component-extensions-with-background-pages',
  '--disable-field-trial-config',
  '--metrics-recording-only',
  '--disable-search-engine-choice-screen',
  `--disable-features=${UNWANTED.join()}`,
  // The sandbox's /dev/shm is small; its /tmp is memory, too.
  '--disable-dev-shm-usage',
  '--disable-gpu',
  '--mute-audio',
  '--hide-scrollbars',
  '--password-store=basic',
  '--use-mock-keychain',
];

export interface StartedChromium {
  readonly devtools: DevTools;
  readonly process: ChildProcess;
}

/** Starts the program; what it writes to its standard error goes to `onStderr`. */
export function startChromium(setup: BrowserSetup, limits: Limits, onStderr: (text: string) => void): StartedChromium {
  const child = spawn(setup.program, switchesOf(setup), {
    cwd: '/tmp',
    env: { HOME: '/tmp', PATH: '/usr/bin:/bin', LANG: 'C.UTF-8', TZ: 'UTC' },
    stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
  });
  child.stderr?.on('error', () => {}).on('data', (chunk: Buffer) => onStderr(chunk.toString()));
  const commands = child.stdio[COMMANDS_FD] as Writable;
  const devtools = new DevTools(commands, child.stdio[MESSAGES_FD] as Readable, limits.browserMessageBytes);
  child.once('error', (error) => devtools.end(new BrowserEnded(error.message)));
  return { devtools, process: child };
}
