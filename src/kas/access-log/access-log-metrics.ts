import { Counter } from 'prom-client'
import type { Registry } from '../../lib/metrics.ts'
import { type LineClass, lineClasses } from '../config/access-log.ts'

export interface AccessLogMetrics {
  /** handed on to be written */
  written(name: LineClass): void
  lost(name: LineClass): void
}

/** Counts in plain numbers, read at each scrape: a labelled counter costs more than it should per line. */
export function createAccessLogMetrics(register: Registry): AccessLogMetrics {
  const counted = (name: string, help: string) => {
    const counts = Object.fromEntries(lineClasses.map((each) => [each, 0])) as Record<LineClass, number>
    new Counter({
      name,
      help,
      labelNames: ['class'],
      registers: [register],
      collect() {
        this.reset()
        for (const each of lineClasses) this.inc({ class: each }, counts[each])
      },
    })
    return (each: LineClass) => {
      counts[each] += 1
    }
  }
  return {
    written: counted('kas_access_log_lines_total', 'Lines of the access log, by class'),
    lost: counted(
      'kas_access_log_lost_lines_total',
      'Lines of the access log that were lost, because those before them could not be written, by class',
    ),
  }
}
