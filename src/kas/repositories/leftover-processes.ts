import { readdir, readFile } from 'node:fs/promises'

/** What marks the processes of one run: a variable of their environment, which their children inherit. */
export const runVariable = 'KAS_GIT_RUN'

/** A process may be born while the others are searched for. */
const maxRounds = 3

/**
 * Ends what a git that was ended left behind: its transport helpers (git-remote-https, ssh) do not end with it and
 * would wait for a silent server for minutes. Linux alone shows who they are; elsewhere they end by their own
 * time-outs.
 *
 * @param run - the value of `runVariable` that they were started with, unique to them
 */
export async function endLeftovers(run: string): Promise<void> {
  for (let round = 0; round < maxRounds; round++) {
    const pids = await processesOf(run)
    if (pids.length === 0) return
    for (const pid of pids) end(pid)
  }
}

async function processesOf(run: string): Promise<readonly number[]> {
  const names = await readdir('/proc').catch(() => [])
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number)
  const mark = `${runVariable}=${run}`
  const marked = pids.map(async (pid) => {
    const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '') // gone, or another user's
    return environment.split('\0').includes(mark) ? [pid] : []
  })
  return (await Promise.all(marked)).flat()
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // it ended by itself
  }
}
