import { Counter, type Registry } from 'prom-client'

export interface ViewsMetrics {
  /** The thread has ended by itself, and starts again. */
  threadEnded(): void
}

export function createViewsMetrics(register: Registry): ViewsMetrics {
  const ends = new Counter({
    name: 'agentk_views_thread_ends_total',
    help: 'Times that the thread of views ran out of memory or was silent, and started again',
    registers: [register],
  })
  return { threadEnded: () => ends.inc() }
}
