import { readFile } from 'node:fs/promises'
import type { Watched } from './hostile-ground.ts'

/** limit for an answer; a frozen program answers once it runs again. ms */
const answerTimeoutMs = 60_000

/** a counter of agentk */
export const viewsThreadEnds = 'agentk_views_thread_ends_total'

export interface VitalSigns {
  readonly name: string
  /** longest stall of its event loop since the last call. ms */
  readonly stallMs: number
  /** value of a metric, `name{label="value"}`; 0: there is none of this name */
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

/** Resident memory of the program. bytes; 0: it has ended */
export async function residentBytes({ pid, withChildren }: Watched): Promise<number> {
  const own = pid()
  if (own === undefined) return 0
  const children = withChildren ? await descendants(own) : []
  const bytes = await Promise.all([residentOf(own), ...children.map(shareOf)])
  return bytes.reduce((sum, each) => sum + each, 0)
}

/** Descendants without processes that serve a repository of this machine: elsewhere the Git server has those. */
async function descendants(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'latin1').catch(() => '') // it has ended
  const all = text.split(' ').filter((each) => each !== '')
  const own = await Promise.all(all.map(async (child) => ((await isServer(child)) ? [] : [Number(child)])))
  const children = own.flat()
  return [...children, ...(await Promise.all(children.map(descendants))).flat()]
}

async function isServer(pid: string): Promise<boolean> {
  const words = (await readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')).split('\0')
  return words.includes('upload-pack') || (words[0] === '/bin/sh' && / upload-pack /.test(words[2] ?? ''))
}

/** Resident memory, with the process's part of shared pages. bytes */
async function shareOf(pid: number): Promise<number> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'latin1').catch(() => '')
  const [, kilobytes = 0] = /^Pss:\s+(\d+) kB$/m.exec(rollup) ?? []
  return Number(kilobytes) * 1024
}

async function residentOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const [, kilobytes = 0] = /^VmRSS:\s+(\d+) kB$/m.exec(status) ?? []
  return Number(kilobytes) * 1024
}
