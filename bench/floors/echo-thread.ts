// An empty job, to measure thread pools.
export default (job: unknown): unknown => job;
