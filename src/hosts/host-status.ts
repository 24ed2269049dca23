/** One tier host in the answer to `status`. */
export interface HostStatus {
  tier: string;
  workspace: string;
  pid: number;
  threads: number;
  busy: number;
  rssBytes: number;
  cpuMs: number;
  restarts: number;
}
