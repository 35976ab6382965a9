import { readFile } from 'node:fs/promises'
import type { Watched } from './hostile-ground.ts'

/** a frozen one answers once it is free again. ms */
const answerTimeoutMs = 60_000

/** counted at agentk */
export const viewsThreadEnds = 'agentk_views_thread_ends_total'

export interface VitalSigns {
  readonly name: string
  /** longest of its event loop since it was asked last. ms */
  readonly stallMs: number
  /** of its metrics, `name{label="value"}`; 0: there is none of this name */
  counter(name: string): number
}

export async function vitalSigns({ name, opsPort }: Watched): Promise<VitalSigns> {
  const signal = AbortSignal.timeout(answerTimeoutMs)
  const answer = await fetch(`http://127.0.0.1:${opsPort}/metrics`, { signal })
  const text = await answer.text()
  const counter = (counted: string) => {
    const line = text.split('\n').find((each) => each.startsWith(`${counted} `))
    return line === undefined ? 0 : Number(line.slice(counted.length + 1))
  }
  return { name, stallMs: counter('nodejs_eventloop_lag_max_seconds') * 1000, counter }
}

/** Resident. bytes; 0: it has ended */
export async function residentBytes({ pid, withChildren }: Watched): Promise<number> {
  const own = pid()
  if (own === undefined) return 0
  const pids = withChildren ? await withDescendants(own) : [own]
  return (await Promise.all(pids.map(residentOf))).reduce((sum, bytes) => sum + bytes, 0)
}

async function withDescendants(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'latin1').catch(() => '') // it has ended
  const children = text.split(' ').filter((each) => each !== '')
  return [pid, ...(await Promise.all(children.map(Number).map(withDescendants))).flat()]
}

async function residentOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const [, kilobytes = 0] = /^VmRSS:\s+(\d+) kB$/m.exec(status) ?? []
  return Number(kilobytes) * 1024
}
