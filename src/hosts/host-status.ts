/** What `status` tells of one tier host. */
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
