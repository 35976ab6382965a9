import { readFile } from 'node:fs/promises'
import type { Watched } from './hostile-ground.ts'

/** a frozen one answers once it is free again. ms */
const answerTimeoutMs = 60_000

/** Longest stall of its event loop since it was asked last. ms */
export async function stallMs({ opsPort }: Watched): Promise<number> {
  const signal = AbortSignal.timeout(answerTimeoutMs)
  const answer = await fetch(`http://127.0.0.1:${opsPort}/metrics`, { signal })
  const [, seconds] = /^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(await answer.text()) ?? []
  if (seconds === undefined) throw new Error('no nodejs_eventloop_lag_max_seconds')
  return Number(seconds) * 1000
}

/** Resident. bytes; 0: it has ended */
export async function residentBytes({ pid }: Watched): Promise<number> {
  const status = await readFile(`/proc/${pid()}/status`, 'utf8').catch(() => '')
  const [, kilobytes = 0] = /^VmRSS:\s+(\d+) kB$/m.exec(status) ?? []
  return Number(kilobytes) * 1024
}
