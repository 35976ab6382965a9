import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

export interface FoundProcess {
  pid: number
  command: string
}

/** ms from SIGKILL to the end of a process */
const dyingMs = 10_000

const read = (path: string) => {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return '' // ended, or of another user
  }
}

/** Returns living processes whose environment has KAS_TEST_MARK=`mark`; none on a system without /proc. */
export function processesMarked(mark: string): FoundProcess[] {
  if (!existsSync('/proc/self/environ')) return []
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => `\0${read(`/proc/${pid}/environ`)}`.includes(`\0KAS_TEST_MARK=${mark}\0`))
    .map((pid) => ({ pid: Number(pid), command: read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim() }))
}

/**
 * Waits at most `patienceMs` until no process is found, then kills the remaining ones. Resolves when they have ended.
 * @returns commands of the killed processes
 */
export async function endProcesses(find: () => FoundProcess[], patienceMs: number): Promise<string[]> {
  const left = await leftAfter(find, patienceMs)
  for (const { pid } of left) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // ended by itself in the meantime
    }
  }
  const undead = await leftAfter(find, dyingMs)
  const kept = undead.map(({ pid }) => `pid ${pid} does not end by SIGKILL`)
  return [...left.map(({ pid, command }) => `${command} (pid ${pid})`), ...kept]
}

async function leftAfter(find: () => FoundProcess[], patienceMs: number): Promise<FoundProcess[]> {
  const end = performance.now() + patienceMs
  let left = find()
  while (left.length > 0 && performance.now() < end) {
    await delay(50)
    left = find()
  }
  return left
}
