import { Counter, Gauge } from 'prom-client'
import type { Registry } from '../../../lib/metrics.ts'

export interface DirectoryMetrics {
  /** Counts a read of a changed file: `ok`, or `failed`, after which the last good file stays in force. */
  read(result: 'ok' | 'failed'): void
  /** Sets the number of tokens that end within 14 days. */
  ending(counts: { readonly agent: number; readonly user: number }): void
}

export const noDirectoryMetrics: DirectoryMetrics = { read: () => undefined, ending: () => undefined }

export function createDirectoryMetrics(register: Registry): DirectoryMetrics {
  const registers = [register]
  const reads = new Counter({
    name: 'kas_directory_file_reads_total',
    help: 'Times that a changed directory file was read',
    labelNames: ['result'],
    registers,
  })
  for (const result of ['ok', 'failed']) reads.inc({ result }, 0)
  const failed = new Gauge({
    name: 'kas_directory_file_failed',
    help: '1 while the directory file on the disk cannot be used and an older one, or none, is in force',
    registers,
  })
  const ending = new Gauge({
    name: 'kas_directory_tokens_ending',
    help: 'Tokens of the directory file that end within 14 days, by whose they are',
    labelNames: ['kind'],
    registers,
  })
  return {
    ending(counts) {
      for (const [kind, count] of Object.entries(counts)) ending.set({ kind }, count)
    },
    read(result) {
      reads.inc({ result })
      failed.set(result === 'ok' ? 0 : 1)
    },
  }
}
