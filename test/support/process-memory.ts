import { readdir, readFile } from 'node:fs/promises'
import { delay } from '../../src/lib/signals.ts'

const sampleMs = 20

/**
 * Measures the most resident memory of any one process with a marking variable, until `end`. A process that lives less
 * than some milliseconds may be missed. Only on Linux.
 *
 * @param mark - `NAME=value` of their environment
 */
export function watchMemory(mark: string): { end(): Promise<number> } {
  const ended = new AbortController()
  let most = 0
  const watching = (async () => {
    while (!ended.signal.aborted) {
      for (const pid of await processesOf(mark)) most = Math.max(most, await peakBytes(pid))
      await delay(sampleMs, ended.signal).catch(() => undefined) // it is over
    }
  })()
  return {
    async end() {
      ended.abort()
      await watching
      return most
    },
  }
}

async function processesOf(mark: string): Promise<readonly string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const marked = await Promise.all(
    pids.map(async (pid) => {
      const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '') // ended, or another user's
      return environment.split('\0').includes(mark)
    }),
  )
  return pids.filter((_, i) => marked[i])
}

async function peakBytes(pid: string): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const [, kilobytes = 0] = /^VmHWM:\s+(\d+) kB$/m.exec(status) ?? []
  return Number(kilobytes) * 1024
}
